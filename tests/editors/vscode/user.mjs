// What a user does and sees: real keys, the ghost text read from the page, the files from the disk.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { page, settingsWith, until, workspace } from "./host.mjs";

export const disk = (name) => fs.readFileSync(path.join(workspace, name), "utf8");
// Ghost text is syntax-coloured, so it comes as several spans; its blanks are U+00A0.
export const ghost = async () => {
  const texts = (selector) => page.$$eval(selector, (elements) => elements.map((element) => element.textContent));
  const line = await texts(".ghost-text-decoration, .ghost-text-decoration-preview");
  const below = await texts(".suggest-preview-text .view-line");
  return [line.join(""), ...below].join("\n").replaceAll("\u00a0", " ");
};
export const waitGhost = (text) =>
  until(async () => (await ghost()) === text, `ghost text ${JSON.stringify(text)}`)
    .catch(async (error) => { throw new Error(`${error.message}; it is ${JSON.stringify(await ghost())}`); });
export const waitDisk = (name, text) =>
  until(() => disk(name) === text, name).catch(() => assert.equal(disk(name), text));
export const bar = () => page.$eval("[id='hearth.hearth.hearth.status'], [id='hearth.hearth.status']", (element) => ({
  text: element.textContent.trim(),
  icon: [...element.querySelectorAll(".codicon")].map((icon) => icon.className).join(" "),
  label: element.querySelector("a")?.getAttribute("aria-label") ?? element.getAttribute("aria-label"),
  classes: element.className,
}));

export async function command(title) {
  await page.keyboard.press("F1");
  await page.waitForSelector(".quick-input-widget input");
  await page.keyboard.type(title);
  await page.click(`.quick-input-list .monaco-list-row[aria-label^='${title}']`);
}

export async function edit(file, line, keys = []) {
  const name = path.basename(file);
  await page.keyboard.press("Control+p");
  await page.waitForSelector(".quick-input-widget input");
  await page.keyboard.type(name);
  await page.click(`.quick-input-list .monaco-list-row[aria-label^='${name}']`);
  await page.waitForSelector(`.tab.active[data-resource-name='${name}']`);
  await page.waitForSelector(".editor-group-container.active .monaco-editor.focused");
  await page.keyboard.press("Control+Home");
  for (let i = 1; i < line; i++) await page.keyboard.press("ArrowDown");
  await page.keyboard.press("End");
  for (const key of keys) await page.keyboard.press(key);
}

export const type = (text) => page.keyboard.type(text, { delay: 30 });
export const save = () => page.keyboard.press("Control+s");

/** Change settings as the user would; changes of the file from outside are not noticed here. */
export async function configure(changes, machine = false) {
  await command(`Preferences: Open ${machine ? "Remote" : "User"} Settings (JSON)`);
  await page.waitForSelector(".tab.active[data-resource-name='settings.json']");
  await page.waitForSelector(".editor-group-container.active .monaco-editor.focused");
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(settingsWith(changes, machine));
  await save();
  await page.waitForSelector(".tab.active[data-resource-name='settings.json']:not(.dirty)");
  await command("View: Close Editor");
}
export const message = (words) =>
  page.waitForSelector(`.notification-toast:has-text(${JSON.stringify(words)})`, { timeout: 30_000 });
export const clearMessages = () => command("Notifications: Clear All Notifications");
