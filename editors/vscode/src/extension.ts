// Wiring: the server, the status bar item and the commands.
import * as vscode from "vscode";
import { Completions } from "./completions.js";
import { Focus } from "./focus.js";
import { Server } from "./server.js";
import { describe, view } from "./status.js";

let server: Server | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Hearth", { log: true });
  const started = new Server(log);
  const completions = new Completions(started);
  started.middleware = completions.middleware;
  server = started;
  const focus = new Focus(started);
  const explanations = new Explanations();
  context.subscriptions.push(
    log,
    completions,
    started,
    focus,
    explanations,
    statusBar(started),
    vscode.commands.registerCommand("hearth.showStatus", () => showStatus(started, log)),
    vscode.commands.registerCommand("hearth.explainLast", () => explanations.show(started)),
    vscode.commands.registerCommand("hearth.toggle", toggle),
    vscode.commands.registerCommand("hearth.restart", () => started.restart()),
    vscode.commands.registerCommand("hearth.showLog", () => {
      log.show();
    }),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("hearth.server")) {
        void started.restart();
      }
    }),
  );
  // Not awaited: the editor must not wait for the server.
  void started.start().then(() => {
    focus.tell();
  });
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}

function statusBar(server: Server): vscode.Disposable {
  const item = vscode.window.createStatusBarItem("hearth.status", vscode.StatusBarAlignment.Right, 100);
  item.name = "Hearth";
  item.command = "hearth.showStatus";
  const show = (): void => {
    const { text, tooltip, background } = view(server.status);
    item.text = text;
    item.tooltip = tooltip;
    item.backgroundColor =
      background === undefined ? undefined : new vscode.ThemeColor(`statusBarItem.${background}Background`);
    item.show();
  };
  show();
  return vscode.Disposable.from(
    item,
    server.onStatus(show),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("hearth.enabled")) {
        show();
      }
    }),
  );
}

async function showStatus(server: Server, log: vscode.LogOutputChannel): Promise<void> {
  const details = await server.ask("hearth.status", []);
  const words = details === undefined ? describe(server.status) : `${describe(server.status)} ${details}`;
  const choice = await vscode.window.showInformationMessage(
    `Hearth: ${words.replaceAll("\n", " · ")}`,
    "Show Log",
    "Restart Server",
    "Settings",
  );
  if (choice === "Show Log") {
    log.show();
  } else if (choice === "Restart Server") {
    await server.restart();
  } else if (choice === "Settings") {
    await vscode.commands.executeCommand("workbench.action.openSettings", "@ext:hearth.hearth");
  }
}

async function toggle(): Promise<void> {
  const config = vscode.workspace.getConfiguration("hearth");
  const inWorkspace = config.inspect("enabled")?.workspaceValue !== undefined;
  const target = inWorkspace ? vscode.ConfigurationTarget.Workspace : vscode.ConfigurationTarget.Global;
  await config.update("enabled", !config.get<boolean>("enabled", true), target);
}

/** The server's explanation as a read-only document beside the code. */
class Explanations implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private static readonly uri = vscode.Uri.parse("hearth:Explanation of the last suggestion");
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly registration = vscode.workspace.registerTextDocumentContentProvider("hearth", this);
  private text = "";

  provideTextDocumentContent(): string {
    return this.text;
  }

  async show(server: Server): Promise<void> {
    const document = vscode.window.activeTextEditor?.document;
    const client = server.running;
    const uri =
      document !== undefined && document.uri.scheme !== "hearth"
        ? client?.code2ProtocolConverter.asUri(document.uri)
        : undefined;
    const text = await server.ask("hearth.explain", uri === undefined ? [] : [uri]);
    if (text === undefined) {
      void vscode.window.showWarningMessage(`Hearth has no explanation. ${describe(server.status)}`);
      return;
    }
    this.text = text;
    this.changed.fire(Explanations.uri);
    const shown = await vscode.workspace.openTextDocument(Explanations.uri);
    await vscode.window.showTextDocument(shown, {
      viewColumn: vscode.ViewColumn.Beside,
      preserveFocus: true,
      preview: true,
    });
  }

  dispose(): void {
    this.changed.dispose();
    this.registration.dispose();
  }
}
