// A real VS Code for a test: code-server's parts, a language server, and Chromium looking at it.
import { spawn } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import path from "node:path";

/** What the test was told by its Python half: see test_vscode.py. */
export const config = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const { chromium } = createRequire(path.join(config.extension, "package.json"))("playwright-core");
const PATIENCE_MS = 25_000; // how long a condition may take on a busy machine; tests go on as soon as it holds

const children = [];
let browser;
/** The page that shows VS Code, once `open` has begun. */
export let page;
let failures = 0;
let passes = 0;

export async function until(condition, what) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await Promise.resolve().then(condition).catch(() => undefined);
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The scripted server's two files: see tests/editors/scripted_server.py. */
export const server = {
  script: path.join(config.folder, "script.json"),
  log: path.join(config.folder, "server.jsonl"),
  options: {},
  rules(rules, options = {}) {
    Object.assign(this.options, options);
    fs.writeFileSync(`${this.script}.new`, JSON.stringify({ rules, ...this.options }));
    fs.renameSync(`${this.script}.new`, this.script);
  },
  received(method) {
    const lines = fs.readFileSync(this.log, "utf8").split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line)).filter((message) => message.method === method);
  },
  waitFor(method, count = 1) {
    return until(() => {
      const messages = this.received(method);
      return messages.length >= count && messages;
    }, `${count} x ${method} at the server`);
  },
};

export const workspace = path.join(config.folder, "workspace");
const settingsFile = path.join(config.folder, "data", "User", "settings.json");
const settings = {
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "workbench.reduceMotion": "on",
  "workbench.editor.useModal": "off",
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "security.workspace.trust.enabled": false,
  "telemetry.telemetryLevel": "off",
  "extensions.autoCheckUpdates": false,
  "extensions.ignoreRecommendations": true,
  "editor.quickSuggestions": { other: "off", comments: "off", strings: "off" },
  "editor.suggestOnTriggerCharacters": false,
  "editor.accessibilitySupport": "off",
  "files.autoSave": "off",
  "chat.disableAIFeatures": true,
  // So that text put into settings.json arrives as it is.
  "[jsonc]": { "editor.autoClosingBrackets": "never", "editor.autoClosingQuotes": "never", "editor.formatOnType": false },
};
// Settings of scope "machine" are read here when the browser is one machine and the server another.
const machineSettingsFile = path.join(config.folder, "data", "Machine", "settings.json");
const machineSettings = {
  "hearth.server.path": config.server[0],
  "hearth.server.args": config.server.slice(1),
  ...config.settings,
};

/** The settings with these changes, as the text of settings.json. */
export function settingsWith(changes, machine = false) {
  return JSON.stringify(Object.assign(machine ? machineSettings : settings, changes));
}

export function prepare(files) {
  fs.mkdirSync(workspace, { recursive: true });
  for (const file of [settingsFile, machineSettingsFile]) fs.mkdirSync(path.dirname(file), { recursive: true });
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(workspace, name), text);
  fs.closeSync(fs.openSync(server.log, "a"));
  fs.writeFileSync(settingsFile, settingsWith({}));
  fs.writeFileSync(machineSettingsFile, settingsWith({}, true));
  server.rules([]);
}

const folders = [
  ["--user-data-dir", path.join(config.folder, "data")],
  ["--extensions-dir", path.join(config.folder, "extensions")],
].flat();

function run(name, args, detached) {
  const log = fs.openSync(path.join(config.folder, `${name}.log`), "a");
  const child = spawn(config.node, args, { detached, stdio: ["ignore", log, log] });
  if (detached) children.push(child);
  return child;
}

export async function install(vsix) {
  const entry = path.join(config.codeServer, "node_modules/code-server/out/node/entry.js");
  const args = ["--config", path.join(config.folder, "config.yaml"), ...folders, "--install-extension", vsix];
  const child = run("install", [entry, ...args], false);
  const code = await new Promise((resolve) => child.on("exit", resolve));
  if (code !== 0) throw new Error(`installing the extension failed, see ${config.folder}/install.log`);
}

async function freePort() {
  const probe = net.createServer();
  await new Promise((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

/**
 * Start VS Code's own server and open the workspace in Chromium. `payload` makes the list of the workbench's start
 * instructions from a function that turns a path into the workbench's own URI for it.
 */
export async function open({ args = [], payload = () => [], onPage = async () => {} } = {}) {
  const port = await freePort();
  const main = path.join(config.codeServer, "node_modules/code-server/lib/vscode/out/server-main.js");
  run("vscode", [main, "--host", "127.0.0.1", "--port", String(port), "--without-connection-token",
    "--accept-server-license-terms", "--disable-telemetry", "--disable-workspace-trust", "--disable-experiments",
    "--server-data-dir", path.join(config.folder, "server-data"), ...folders, ...args], true);
  await until(async () => (await fetch(`http://127.0.0.1:${port}/version`)).ok, "VS Code's server");
  browser = await chromium.launch({
    executablePath: config.chromium,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync"],
  });
  page = await browser.newPage({ viewport: { width: 1100, height: 640 } });
  // Nothing may leave the machine.
  await page.context().route(
    (url) => url.hostname !== "127.0.0.1" && /^(https?|wss?):$/.test(url.protocol),
    (route) => route.abort(),
  );
  page.on("console", (message) => fs.appendFileSync(path.join(config.folder, "console.log"), `${message.text()}\n`));
  await onPage();
  const uri = (file) => `vscode-remote://127.0.0.1:${port}${file}`;
  const start = encodeURIComponent(JSON.stringify(payload(uri)));
  await page.goto(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(workspace)}&payload=${start}`);
}

export async function screenshot(name) {
  await page.screenshot({ path: path.join(config.artefacts, `${name}.png`) });
}

/** Run one named check; the others go on when it fails. */
export async function check(name, body) {
  try {
    await body();
    passes += 1;
    console.log(`ok ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED ${name}: ${error.stack}`);
    if (page) await screenshot(`failed-${failures}`).catch(() => {});
  }
}

/** End everything that was started; print the count that the Python half reads. */
export async function finish() {
  await browser?.close().catch(() => {});
  for (const child of children) {
    try {
      process.kill(-child.pid, "SIGTERM"); // the whole group: VS Code's server has children of its own
    } catch { /* it has ended by itself */ }
  }
  console.log(`${passes} passed, ${failures} failed`);
  process.exit(failures === 0 ? 0 : 1);
}
