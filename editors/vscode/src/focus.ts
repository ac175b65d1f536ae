// Telling the server where the user works, so that it can make that place warm before a key is pressed, and that it
// may rest when the user works elsewhere.
import * as vscode from "vscode";
import type { Server } from "./server.js";

/** A cursor on its way somewhere is not worth a notice. */
const REST_MS = 150;

export class Focus implements vscode.Disposable {
  private timer: NodeJS.Timeout | undefined;
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly server: Server) {
    this.subscriptions = [
      vscode.window.onDidChangeActiveTextEditor(() => {
        this.tell();
      }),
      vscode.window.onDidChangeWindowState(() => {
        this.tell();
      }),
      vscode.window.onDidChangeTextEditorSelection((event) => {
        if (event.textEditor === vscode.window.activeTextEditor) {
          clearTimeout(this.timer);
          this.timer = setTimeout(() => {
            this.tell();
          }, REST_MS);
        }
      }),
    ];
  }

  /** The active document and its cursor; an empty notice when the focus is in no document of ours. */
  tell(): void {
    clearTimeout(this.timer);
    const client = this.server.running;
    if (client === undefined) {
      return;
    }
    const editor = vscode.window.state.focused ? vscode.window.activeTextEditor : undefined;
    const known = editor !== undefined && ["file", "untitled", "vscode-notebook-cell"].includes(editor.document.uri.scheme);
    this.server.notify(
      "textDocument/didFocus",
      known
        ? {
            textDocument: client.code2ProtocolConverter.asVersionedTextDocumentIdentifier(editor.document),
            position: client.code2ProtocolConverter.asPosition(editor.selection.active),
          }
        : {},
    );
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const subscription of this.subscriptions) {
      subscription.dispose();
    }
  }
}
