// Runs inside the real extension host: the real API, no mock.
const assert = require("node:assert/strict");
const vscode = require("vscode");

async function until(condition, what) {
  for (let i = 0; i < 400; i++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`waited in vain: ${what}`);
}

const tests = {
  async "the extension activates and adds its commands"() {
    const extension = vscode.extensions.getExtension("hearth.hearth");
    await extension.activate();
    const commands = await vscode.commands.getCommands(true);
    for (const { command } of extension.packageJSON.contributes.commands) {
      assert.ok(commands.includes(command), command);
    }
  },
  async "every setting of the manifest has its default"() {
    const { properties } = vscode.extensions.getExtension("hearth.hearth").packageJSON.contributes.configuration;
    const config = vscode.workspace.getConfiguration();
    for (const [name, { default: value }] of Object.entries(properties)) {
      assert.deepEqual(config.inspect(name).defaultValue, value, name);
    }
  },
  async "a suggestion is taken by the editor's own command"() {
    const [folder] = vscode.workspace.workspaceFolders;
    const document = await vscode.workspace.openTextDocument(vscode.Uri.joinPath(folder.uri, "a.py"));
    const editor = await vscode.window.showTextDocument(document);
    editor.selection = new vscode.Selection(1, 7, 1, 7);
    await until(async () => {
      await vscode.commands.executeCommand("editor.action.inlineSuggest.trigger");
      await new Promise((resolve) => setTimeout(resolve, 100));
      await vscode.commands.executeCommand("editor.action.inlineSuggest.commit");
      return document.getText() !== "def f(a, b):\n    ret\n";
    }, "a suggestion");
    assert.equal(document.getText(), "def f(a, b):\n    return a + b\n");
    assert.equal(editor.selection.active.character, 16);
  },
  async "toggling changes the setting"() {
    const enabled = () => vscode.workspace.getConfiguration("hearth").get("enabled");
    assert.equal(enabled(), true);
    await vscode.commands.executeCommand("hearth.toggle");
    assert.equal(enabled(), false);
    await vscode.commands.executeCommand("hearth.toggle");
    assert.equal(enabled(), true);
  },
};

exports.run = async function run() {
  const failed = [];
  for (const [name, body] of Object.entries(tests)) {
    try {
      await body();
      console.log(`ok ${name}`);
    } catch (error) {
      failed.push(name);
      console.log(`FAILED ${name}: ${error.stack}`);
    }
  }
  if (failed.length > 0) throw new Error(`failed: ${failed.join(", ")}`);
};
