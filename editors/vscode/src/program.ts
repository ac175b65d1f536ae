// Finding the server's program before it is started, so that a missing one is told in words.
import * as path from "node:path";

export interface Machine {
  platform: NodeJS.Platform;
  home: string;
  /** The PATH variable, and on Windows PATHEXT. */
  env: { PATH?: string | undefined; PATHEXT?: string | undefined };
  isExecutable(file: string): boolean;
}

/** The full path of the program that `name` means (a name on PATH, a path, or ~/ and a path), or undefined. */
export function findProgram(name: string, machine: Machine): string | undefined {
  const windows = machine.platform === "win32";
  const paths = windows ? path.win32 : path.posix;
  const expanded = /^~[/\\]/.test(name) ? paths.join(machine.home, name.slice(2)) : name;
  const suffixes = windows ? ["", ...(machine.env.PATHEXT ?? ".EXE;.CMD;.BAT").split(";")] : [""];
  const isPath = paths.isAbsolute(expanded) || expanded.includes("/") || (windows && expanded.includes("\\"));
  if (isPath && !paths.isAbsolute(expanded)) {
    return undefined; // relative to what? a workspace must not decide which program runs
  }
  const folders = isPath ? [""] : (machine.env.PATH ?? "").split(windows ? ";" : ":").filter((folder) => paths.isAbsolute(folder));
  for (const folder of folders) {
    for (const suffix of suffixes) {
      const file = paths.join(folder, expanded + suffix);
      if (machine.isExecutable(file)) {
        return file;
      }
    }
  }
  return undefined;
}
