// The whole way: the packaged extension, Hearth's own server and engine, a real model, and a real project.
// config.hole: {file, line (from 1), typed}: where the user begins to type what is missing. See test_vscode.py.
import assert from "node:assert/strict";
import { check, config, finish, install, open, page, prepare, screenshot, until } from "./host.mjs";
import { clearMessages, command, disk, edit, ghost, message, save, type } from "./user.mjs";

const { file, line, typed } = config.hole;

async function modelIsLoaded() {
  await command("Hearth: Show Status");
  const words = await (await message("Hearth: The server is")).textContent();
  await clearMessages();
  return words.includes("The model is loaded.");
}

/** The ghost text once two looks see the same, so that one of a half-typed line is not taken for the last. */
let seen = "";
async function settledGhost() {
  const before = seen;
  seen = (await ghost()).trim();
  return seen !== "" && seen === before && seen;
}

prepare({});
await install(config.vsix);
try {
  await open();
  await page.waitForSelector("[id='hearth.hearth.hearth.status'], [id='hearth.hearth.status']", { timeout: 60_000 });

  await check("a real suggestion is shown, accepted and saved", async () => {
    await until(modelIsLoaded, "the model");
    const before = disk(file);
    await edit(file, line);
    await type(typed);
    const shown = await until(settledGhost, "ghost text");
    assert.equal(disk(file), before);
    await screenshot("vscode-real-model");
    await page.keyboard.press("Tab");
    await until(async () => (await ghost()) === "", "the suggestion has become text");
    await save();
    await until(() => disk(file) !== before, "saved");
    const after = disk(file).split("\n");
    assert.ok(after[line - 1].includes(typed + shown.split("\n")[0]), `${shown} is not in ${after[line - 1]}`);
  });
} catch (error) {
  await check("the whole run", () => { throw error; });
} finally {
  await finish();
}
