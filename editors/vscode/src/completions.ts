// Asking for completions: the standard request plus what it lacks (the document's version, the indentation), and
// the notices about what became of the answer.
import * as vscode from "vscode";
import {
  type InlineCompletionItem,
  type InlineCompletionParams,
  InlineCompletionRequest,
  type Middleware,
} from "vscode-languageclient/node";
import type { Server } from "./server.js";
import { type Item, Shown } from "./shown.js";

type ServerItem = InlineCompletionItem & Item;

// VS Code cancels on every key and asks again a moment later. A newer request supersedes the older one in the server,
// which may go on writing the same suggestion when the user only types along; so a cancellation waits this long for one.
const FOLLOWED_WITHIN_MS = 200;

/** VS Code asks providers even where the user switched suggestions off; then the server must not work. */
function wanted(document: vscode.TextDocument, context: vscode.InlineCompletionContext): boolean {
  if (context.triggerKind === vscode.InlineCompletionTriggerKind.Invoke) {
    return true;
  }
  return (
    vscode.workspace.getConfiguration("editor", document).get<boolean>("inlineSuggest.enabled", true) &&
    vscode.workspace.getConfiguration("hearth", document).get<boolean>("enabled", true)
  );
}

function formattingOptions(document: vscode.TextDocument): { tabSize: number; insertSpaces: boolean } {
  const editor = vscode.window.visibleTextEditors.find((candidate) => candidate.document === document);
  const { tabSize, insertSpaces } = editor?.options ?? {};
  return {
    tabSize: typeof tabSize === "number" ? tabSize : 4,
    insertSpaces: typeof insertSpaces === "boolean" ? insertSpaces : true,
  };
}

export class Completions implements vscode.Disposable {
  private readonly shown = new Map<string, Shown<ServerItem>>();
  private readonly latest = new Map<string, vscode.CancellationTokenSource>();
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly server: Server) {
    this.subscriptions = [
      vscode.workspace.onDidChangeTextDocument((event) => {
        this.documentChanged(event);
      }),
      vscode.workspace.onDidCloseTextDocument((document) => {
        this.shown.delete(document.uri.toString());
        this.latest.delete(document.uri.toString());
      }),
    ];
  }

  readonly middleware: Middleware = {
    provideInlineCompletionItems: async (document, position, context, token) => {
      const client = this.server.running;
      if (client === undefined || !wanted(document, context)) {
        return null;
      }
      const params = client.code2ProtocolConverter.asInlineCompletionParams(document, position, context);
      const extended: InlineCompletionParams = {
        ...params,
        textDocument: { ...params.textDocument, version: document.version },
        formattingOptions: formattingOptions(document),
      } as InlineCompletionParams;
      try {
        const patient = this.patiently(document.uri.toString(), token);
        const result = await client.sendRequest(InlineCompletionRequest.type, extended, patient);
        if (token.isCancellationRequested) {
          return null;
        }
        const items = Array.isArray(result) ? result : (result?.items ?? []);
        this.answered(document, position, items);
        return await client.protocol2CodeConverter.asInlineCompletionResult(result, token);
      } catch (error) {
        if (!token.isCancellationRequested) {
          client.warn(`No completion: ${error instanceof Error ? error.message : String(error)}`, undefined, false);
        }
        return null;
      }
    },
  };

  dispose(): void {
    for (const subscription of this.subscriptions) {
      subscription.dispose();
    }
  }

  /** A token that cancels after `token`, unless another question about the document came meanwhile. */
  private patiently(key: string, token: vscode.CancellationToken): vscode.CancellationToken {
    const source = new vscode.CancellationTokenSource();
    this.latest.set(key, source);
    token.onCancellationRequested(() => {
      setTimeout(() => {
        if (this.latest.get(key) === source) {
          source.cancel();
        }
      }, FOLLOWED_WITHIN_MS);
    });
    return source.token;
  }

  private answered(document: vscode.TextDocument, position: vscode.Position, items: InlineCompletionItem[]): void {
    const key = document.uri.toString();
    const shown = this.shown.get(key) ?? new Shown<ServerItem>();
    this.shown.set(key, shown);
    const first = items.find((item): item is ServerItem => typeof item.insertText === "string");
    const left = document.lineAt(position.line).text.slice(0, position.character);
    const item = shown.answered(first, position, left);
    if (item !== undefined) {
      this.server.notify("textDocument/didShowCompletion", { item });
    }
  }

  private documentChanged(event: vscode.TextDocumentChangeEvent): void {
    const change = event.contentChanges[0];
    const shown = this.shown.get(event.document.uri.toString());
    if (shown === undefined || change === undefined || event.contentChanges.length > 1) {
      return;
    }
    const { start } = change.range;
    const taken = shown.changed({ start, replaced: change.rangeLength, text: change.text }, (from) =>
      event.document.getText(new vscode.Range(from.line, from.character, start.line, start.character)),
    );
    if (taken !== undefined) {
      this.server.notify("textDocument/didPartiallyAcceptCompletion", taken);
    }
  }
}
