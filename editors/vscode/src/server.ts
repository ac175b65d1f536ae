// The server's life: found, started, started again after it stops by itself (a limited number of times), ended.
import * as fs from "node:fs";
import * as os from "node:os";
import * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  type Middleware,
  RevealOutputChannelOn,
} from "vscode-languageclient/node";
import { findProgram } from "./program.js";
import { Restarts } from "./restarts.js";
import { parseNotice, QUIET, type Status } from "./status.js";

/** Faults go to the log; people are told in our own words, once, and never with a stack trace. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

function isExecutable(file: string): boolean {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

export class Server implements vscode.Disposable {
  private readonly statusChanged = new vscode.EventEmitter<void>();
  readonly onStatus = this.statusChanged.event;
  private readonly restarts = new Restarts();
  private waiting: NodeJS.Timeout | undefined;
  private client: LanguageClient | undefined;
  private process: Status["process"] = "off";
  private notice = QUIET;
  /** Starting and stopping never overlap: two servers would hold the model in memory twice. */
  private queue: Promise<void> = Promise.resolve();

  /** Set before the start: what stands between the editor's requests and the server. */
  middleware: Middleware = {};

  constructor(private readonly log: vscode.LogOutputChannel) {}

  get status(): Status {
    const enabled = vscode.workspace.getConfiguration("hearth").get<boolean>("enabled", true);
    return { process: this.process, enabled, notice: this.notice };
  }

  /** The client, while its server runs. */
  get running(): LanguageClient | undefined {
    return this.process === "running" ? this.client : undefined;
  }

  start(): Promise<void> {
    return this.enqueue(() => this.launch());
  }

  restart(): Promise<void> {
    this.restarts.reset();
    return this.enqueue(async () => {
      await this.end();
      await this.launch();
    });
  }

  stop(): Promise<void> {
    return this.enqueue(() => this.end());
  }

  dispose(): void {
    clearTimeout(this.waiting);
    this.statusChanged.dispose();
  }

  /** Send a notice if the server runs; one that cannot be sent is of no interest any more. */
  notify(method: string, params: object): void {
    this.running?.sendNotification(method, params).catch((error: unknown) => {
      this.log.warn(`${method} was not sent: ${String(error)}`);
    });
  }

  /** Run a command of the server whose result is { text }. */
  async ask(command: string, args: unknown[]): Promise<string | undefined> {
    try {
      const params = { command, arguments: args };
      const result: unknown = await this.running?.sendRequest("workspace/executeCommand", params);
      const text = (result as { text?: unknown } | null | undefined)?.text;
      return typeof text === "string" ? text : undefined;
    } catch (error) {
      this.log.warn(`${command} failed: ${String(error)}`);
      return undefined;
    }
  }

  private enqueue(work: () => Promise<void>): Promise<void> {
    this.queue = this.queue.then(work).catch((error: unknown) => {
      this.log.error(String(error));
    });
    return this.queue;
  }

  private set(process: Status["process"], notice = QUIET): void {
    this.process = process;
    this.notice = notice;
    this.statusChanged.fire();
  }

  private async launch(): Promise<void> {
    clearTimeout(this.waiting);
    const config = vscode.workspace.getConfiguration("hearth.server");
    const name = config.get("path", "hearth");
    const program = findProgram(name, {
      platform: process.platform,
      home: os.homedir(),
      env: process.env,
      isExecutable,
    });
    if (program === undefined) {
      this.set("missing");
      void this.tellMissing(name);
      return;
    }
    this.set("starting");
    this.restarts.started(Date.now());
    const client = this.create(program, config.get("args", ["lsp"]));
    this.client = client;
    client.onNotification("didChangeStatus", (raw: unknown) => {
      const notice = parseNotice(raw);
      if (notice !== undefined && this.client === client) {
        this.set(this.process, notice);
      }
    });
    try {
      await client.start();
    } catch (error) {
      this.log.error(`The server did not start: ${String(error)}`);
      this.stopped(client);
      return;
    }
    // It may have stopped again while it started; `stopped` has dealt with that.
    if (this.isCurrent(client)) {
      this.set("running", this.notice);
    }
  }

  private isCurrent(client: LanguageClient): boolean {
    return this.client === client;
  }

  private create(program: string, args: string[]): LanguageClient {
    const client: LanguageClient = new QuietClient(
      "hearth",
      "Hearth",
      { command: program, args },
      {
        documentSelector: [{ scheme: "file" }, { scheme: "untitled" }, { scheme: "vscode-notebook-cell" }],
        outputChannel: this.log,
        revealOutputChannelOn: RevealOutputChannelOn.Never,
        middleware: this.middleware,
        initializationFailedHandler: () => false,
        errorHandler: {
          error: () => ({ action: ErrorAction.Continue, handled: true }),
          closed: () => {
            this.stopped(client);
            return { action: CloseAction.DoNotRestart, handled: true };
          },
        },
      },
    );
    return client;
  }

  private async end(): Promise<void> {
    clearTimeout(this.waiting);
    const client = this.client;
    this.client = undefined;
    this.set("off");
    if (client?.isRunning() === true) {
      await client.stop();
    }
  }

  /** A server stopped without being told to. */
  private stopped(client: LanguageClient): void {
    if (this.client !== client) {
      return;
    }
    this.client = undefined;
    const { delayMs, first, stops } = this.restarts.stopped(Date.now());
    if (delayMs === undefined) {
      this.set("failed");
      void this.tell(
        `Hearth's server stopped ${stops} times in a row and stays off. The log may say why.`,
        vscode.window.showErrorMessage,
      );
      return;
    }
    this.set("restarting");
    if (first) {
      void this.tell("Hearth's server stopped and is being started again.", vscode.window.showWarningMessage);
    }
    this.waiting = setTimeout(() => void this.start(), delayMs);
  }

  private async tell(
    words: string,
    show: (message: string, ...actions: string[]) => Thenable<string | undefined>,
  ): Promise<void> {
    this.log.warn(words);
    const choice = await show(words, "Show Log", "Restart Server");
    if (choice === "Show Log") {
      this.log.show();
    } else if (choice === "Restart Server") {
      await this.restart();
    }
  }

  private async tellMissing(name: string): Promise<void> {
    const words =
      `Hearth cannot find its server “${name}”. Install Hearth, or give the program's full path ` +
      "in the setting hearth.server.path; then choose Try Again.";
    this.log.warn(words);
    const choice = await vscode.window.showErrorMessage(words, "Open Setting", "Try Again");
    if (choice === "Open Setting") {
      await vscode.commands.executeCommand("workbench.action.openSettings", "hearth.server.path");
    } else if (choice === "Try Again") {
      await this.restart();
    }
  }
}
