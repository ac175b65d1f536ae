// As a user: the packaged extension in VS Code, real keys, the ghost text read from the page, the files from the disk.
import assert from "node:assert/strict";
import path from "node:path";
import { check, config, finish, install, open, page, prepare, screenshot, server, until, workspace } from "./host.mjs";
import {
  bar, clearMessages, command, configure, disk, edit, message, save, type, waitDisk, waitGhost,
} from "./user.mjs";

const REQUEST = "textDocument/inlineCompletion";
const RETURN = { anchor: "^\\s*", texts: ["return a + b"], command: true };

prepare({
  "a.py": "def f(a, b):\n    \n",
  "words.py": "",
  "crlf.py": "x = 1\r\n\r\ny = 2\r\n",
  "wide.py": "x = len('日本🙂é')\n",
  "middle.py": "f() + 3\n",
  "empty.py": "",
  "last.py": "x = 1\n",
  "through.py": "",
  "idle.py": "",
  "status.py": "",
  "crash.py": "",
  "undo.py": "",
});
await install(config.vsix);

try {
  await open({ payload: (uri) => [["openFile", uri(path.join(workspace, "a.py"))]] });
  await page.waitForSelector(".monaco-editor .view-line", { timeout: 60_000 });
  await server.waitFor("initialized");

  await check("ghost text, accept, save, and what the server was told", async () => {
    server.rules([RETURN]);
    await edit("a.py", 2);
    await type("ret");
    await waitGhost("urn a + b");
    assert.equal(disk("a.py"), "def f(a, b):\n    \n");
    await screenshot("vscode-ghost");
    const request = server.received(REQUEST).at(-1).params;
    const change = server.received("textDocument/didChange").at(-1).params;
    assert.equal(request.textDocument.version, change.textDocument.version);
    assert.deepEqual(request.formattingOptions, { tabSize: 4, insertSpaces: true });
    assert.equal(request.context.triggerKind, 2);
    const [shown] = await server.waitFor("textDocument/didShowCompletion");
    assert.equal(shown.params.item.insertText, "return a + b");
    await page.keyboard.press("Tab");
    await save();
    await waitDisk("a.py", "def f(a, b):\n    return a + b\n");
    const [accepted] = await server.waitFor("workspace/executeCommand");
    assert.deepEqual(accepted.params, { command: "scripted.accepted", arguments: [0] });
    assert.equal(server.received("textDocument/didPartiallyAcceptCompletion").length, 0);
  });

  await check("word by word, with the lengths told to the server", async () => {
    server.rules([{ anchor: "^\\s*", texts: ["if alpha:\n    beta()"] }]);
    await edit("words.py", 1);
    await type("i");
    await waitGhost("f alpha:\n    beta()");
    await screenshot("vscode-multi-line");
    for (const rest of [" alpha:", "alpha:", ":"]) {
      await page.keyboard.press("Control+ArrowRight");
      await waitGhost(`${rest}\n    beta()`);
    }
    await save();
    await waitDisk("words.py", "if alpha");
    const notices = await server.waitFor("textDocument/didPartiallyAcceptCompletion");
    assert.equal(notices.at(-1).params.acceptedLength, "if alpha".length);
    await page.keyboard.press("Tab");
    await save();
    await waitDisk("words.py", "if alpha:\n    beta()");
  });

  await check("typing through keeps the suggestion", async () => {
    server.rules([RETURN]);
    await edit("through.py", 1);
    await type("re");
    await waitGhost("turn a + b");
    await type("turn");
    await waitGhost(" a + b");
    await page.keyboard.press("Tab");
    await save();
    await waitDisk("through.py", "return a + b");
  });

  await check("a CRLF file keeps its line ends", async () => {
    server.rules([{ anchor: "^\\s*", texts: ["if a:\n    pass"] }]);
    await edit("crlf.py", 2);
    await type("i");
    await waitGhost("f a:\n    pass");
    await page.keyboard.press("Tab");
    await save();
    await waitDisk("crlf.py", "x = 1\r\nif a:\r\n    pass\r\ny = 2\r\n");
  });

  await check("wide characters and emoji left of the cursor", async () => {
    server.rules([{ anchor: "'\\) ", texts: ["+ 'é🙂' + rest"] }]);
    await edit("wide.py", 1);
    await type(" +");
    await waitGhost(" 'é🙂' + rest");
    await page.keyboard.press("Tab");
    await save();
    await waitDisk("wide.py", "x = len('日本🙂é') + 'é🙂' + rest\n");
  });

  await check("text right of the cursor", async () => {
    server.rules([{ anchor: "\\(", texts: ["1, 2)"], covers: 1 }]);
    await edit("middle.py", 1, ["Home", "ArrowRight", "ArrowRight"]);
    await type("1");
    await waitGhost(", 2");
    await screenshot("vscode-mid-line");
    await page.keyboard.press("Tab");
    await save();
    await waitDisk("middle.py", "f(1, 2) + 3\n");
  });

  await check("the first line of an empty file", async () => {
    server.rules([{ anchor: "^", texts: ["import os"] }]);
    await edit("empty.py", 1);
    await type("i");
    await waitGhost("mport os");
    await page.keyboard.press("Tab");
    await save();
    await waitDisk("empty.py", "import os");
  });

  await check("the empty last line", async () => {
    server.rules([{ anchor: "^", texts: ["print(1)"] }]);
    await edit("last.py", 2);
    await type("p");
    await waitGhost("rint(1)");
    await page.keyboard.press("Tab");
    await save();
    await waitDisk("last.py", "x = 1\nprint(1)");
  });

  await check("one undo takes an accept back", async () => {
    server.rules([RETURN]);
    await edit("undo.py", 1);
    await type("ret");
    await waitGhost("urn a + b");
    await page.keyboard.press("Tab");
    await save();
    await waitDisk("undo.py", "return a + b");
    await page.keyboard.press("Control+z");
    await save();
    await waitDisk("undo.py", "ret");
  });

  await check("where the focus and the cursor are is told", async () => {
    await edit("last.py", 1);
    await until(() => {
      const { textDocument, position } = server.received("textDocument/didFocus").at(-1).params;
      return textDocument?.uri.endsWith("/last.py") && position.line === 0 && position.character === 5;
    }, "focus notice");
  });

  await check("the status bar shows what the server says", async () => {
    assert.match((await bar()).icon, /codicon-flame/);
    server.rules([RETURN], { status: { busy: true, kind: "Normal", message: "loading the model" } });
    await edit("status.py", 1);
    await type("r");
    await until(async () => /codicon-loading/.test((await bar()).icon), "busy");
    assert.match((await bar()).label, /loading the model/);
    server.rules([RETURN], { status: { busy: false, kind: "Warning", message: "the model is slow" } });
    await type("e");
    await until(async () => /warning-kind/.test((await bar()).classes), "warning");
    await screenshot("vscode-status-warning");
    server.rules([RETURN], { status: { busy: false, kind: "Normal", message: "" } });
    await type("t");
    await until(async () => /codicon-flame/.test((await bar()).icon), "quiet");
    await command("Hearth: Show Status");
    await message("Hearth: The server is running. hearth.status");
    await screenshot("vscode-status");
    await clearMessages();
  });

  await check("the last suggestion is explained in a document beside", async () => {
    await command("Hearth: Explain Last Suggestion");
    await page.waitForSelector(".tab:has-text('Explanation of the last suggestion')");
    const lines = page.locator(".editor-group-container:has(.tab:has-text('Explanation')) .view-lines");
    await until(async () => (await lines.textContent()).replaceAll("\u00a0", " ") === "hearth.explain status.py",
      "explanation");
    await screenshot("vscode-explain");
    await command("View: Join All Editor Groups");
  });

  await check("no request while the editor's suggestions, or Hearth's, are off", async () => {
    server.rules([RETURN]);
    await edit("idle.py", 1);
    await type("r");
    await waitGhost("eturn a + b");
    await page.keyboard.press("Escape");
    const silent = async () => {
      await edit("idle.py", 1);
      const asked = server.received(REQUEST).length;
      const changed = server.received("textDocument/didChange").length;
      await type("xyz");
      // Where suggestions are on, the first key's request is long at the server when the third key's change is.
      await server.waitFor("textDocument/didChange", changed + 3);
      await page.keyboard.press("Control+z");
      await server.waitFor("textDocument/didChange", changed + 4);
      assert.equal(server.received(REQUEST).length, asked);
    };
    const offered = async () => {
      await edit("idle.py", 1);
      await type("e");
      await waitGhost("turn a + b");
      await page.keyboard.press("Backspace");
    };
    await configure({ "editor.inlineSuggest.enabled": false });
    await silent();
    await configure({ "editor.inlineSuggest.enabled": true });
    await offered();
    await command("Hearth: Toggle Suggestions");
    await until(async () => /codicon-circle-slash/.test((await bar()).icon), "bar shows off");
    await silent();
    await command("Hearth: Toggle Suggestions");
    await until(async () => /codicon-flame/.test((await bar()).icon), "bar shows on");
    await offered();
  });

  await check("a server that stops is told in words and comes back", async () => {
    const starts = server.received("initialize").length;
    server.rules([{ answer: "crash" }]);
    await edit("crash.py", 1);
    await type("r");
    await message("Hearth's server stopped and is being started again.");
    server.rules([RETURN]);
    await server.waitFor("initialize", starts + 1);
    await until(async () => /codicon-flame/.test((await bar()).icon), "running again");
    await screenshot("vscode-restarted");
    await clearMessages();
    await edit("crash.py", 1);
    await type("e");
    await waitGhost("turn a + b");
  });

  await check("a missing server is told with what to do", async () => {
    await configure({ "hearth.server.path": "no-such-hearth" }, true);
    const toast = await message("Hearth cannot find its server “no-such-hearth”.");
    const words = await toast.textContent();
    assert.match(words, /full path in the setting hearth\.server\.path/);
    assert.match(words, /Open Setting/);
    assert.doesNotMatch(words, /\n\s+at |Error:/);
    assert.equal((await page.$$(".notification-toast")).length, 1);
    await until(async () => /error-kind/.test((await bar()).classes), "bar shows the fault");
    await screenshot("vscode-missing");
    const starts = server.received("initialize").length;
    await configure({ "hearth.server.path": config.server[0] }, true);
    await server.waitFor("initialize", starts + 1);
    await until(async () => /codicon-flame/.test((await bar()).icon), "running again");
  });
} catch (error) {
  await check("the whole run", () => { throw error; });
} finally {
  await finish();
}
