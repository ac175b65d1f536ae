import { describe, expect, test } from "vitest";
import { findProgram, type Machine } from "../src/program.js";

function machine(files: string[], over: Partial<Machine> = {}): Machine {
  return {
    platform: "linux",
    home: "/home/u",
    env: { PATH: "/usr/bin:bin::/opt/bin" },
    isExecutable: (file) => files.includes(file),
    ...over,
  };
}

describe("findProgram", () => {
  test("looks through PATH in order", () => {
    expect(findProgram("hearth", machine(["/opt/bin/hearth"]))).toBe("/opt/bin/hearth");
    expect(findProgram("hearth", machine(["/opt/bin/hearth", "/usr/bin/hearth"]))).toBe("/usr/bin/hearth");
  });
  test("takes a full path and one from the home folder", () => {
    expect(findProgram("/x y/hearth", machine(["/x y/hearth"]))).toBe("/x y/hearth");
    expect(findProgram("~/bin/hearth", machine(["/home/u/bin/hearth"]))).toBe("/home/u/bin/hearth");
  });
  test("never takes a path relative to some folder", () => {
    const all = machine([], { isExecutable: () => true, env: { PATH: "bin:." } });
    expect(findProgram("hearth", all)).toBeUndefined();
    expect(findProgram("./hearth", all)).toBeUndefined();
    expect(findProgram("bin/hearth", all)).toBeUndefined();
  });
  test("is undefined when there is none", () => {
    expect(findProgram("hearth", machine([]))).toBeUndefined();
    expect(findProgram("hearth", machine([], { env: {} }))).toBeUndefined();
  });
  test("tries Windows' endings", () => {
    const windows = machine(["C:\\Tools\\hearth.EXE"], {
      platform: "win32",
      env: { PATH: "C:\\Tools", PATHEXT: ".COM;.EXE" },
    });
    expect(findProgram("hearth", windows)).toBe("C:\\Tools\\hearth.EXE");
    expect(findProgram("C:\\Tools\\hearth", windows)).toBe("C:\\Tools\\hearth.EXE");
  });
});
