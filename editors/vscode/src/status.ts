// What the status bar says. No `vscode` here: the bar's item is filled from `view`.

/** The server's `didChangeStatus` notice. */
export interface StatusNotice {
  busy: boolean;
  kind: "Normal" | "Warning" | "Error" | "Inactive";
  message: string;
}

export type ProcessState = "off" | "missing" | "starting" | "running" | "restarting" | "failed";

export interface Status {
  process: ProcessState;
  enabled: boolean;
  notice: StatusNotice;
}

export interface StatusView {
  text: string;
  tooltip: string;
  background: "warning" | "error" | undefined;
}

export const QUIET: StatusNotice = { busy: false, kind: "Normal", message: "" };

const PROCESS_WORDS: Record<ProcessState, string> = {
  off: "The server is not running.",
  missing: "The server is not installed, or not where the settings say.",
  starting: "The server is starting.",
  running: "The server is running.",
  restarting: "The server stopped and is being started again.",
  failed: "The server stopped too often and stays off. “Hearth: Restart Server” starts it again.",
};

/** A notice as it came over the wire, or undefined when it is none. */
export function parseNotice(raw: unknown): StatusNotice | undefined {
  if (typeof raw !== "object" || raw === null) {
    return undefined;
  }
  const { busy, kind, message } = raw as Record<string, unknown>;
  const known = kind === "Warning" || kind === "Error" || kind === "Inactive" ? kind : "Normal";
  return { busy: busy === true, kind: known, message: typeof message === "string" ? message : "" };
}

/** One or two sentences for a person. */
export function describe(status: Status): string {
  const words = [PROCESS_WORDS[status.process]];
  if (!status.enabled) {
    words.push("Suggestions are off.");
  }
  if (status.process === "running" && status.notice.message !== "") {
    words.push(status.notice.message);
  }
  return words.join(" ");
}

export function view(status: Status): StatusView {
  const tooltip = `Hearth: ${describe(status)}`;
  const bar = (icon: string, background?: "warning" | "error"): StatusView => ({
    text: `$(${icon}) Hearth`,
    tooltip,
    background,
  });
  switch (status.process) {
    case "missing":
    case "failed":
      return bar("error", "error");
    case "restarting":
      return bar("loading~spin", "warning");
    case "starting":
      return bar("loading~spin");
    case "off":
      return bar("circle-slash");
    case "running":
      break;
  }
  if (!status.enabled) {
    return bar("circle-slash");
  }
  if (status.notice.kind === "Error") {
    return bar("error", "error");
  }
  if (status.notice.kind === "Warning") {
    return bar("warning", "warning");
  }
  if (status.notice.busy) {
    return bar("loading~spin");
  }
  return bar(status.notice.kind === "Inactive" ? "circle-slash" : "flame");
}
