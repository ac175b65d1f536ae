import { describe as group, expect, test } from "vitest";
import { describe, parseNotice, QUIET, view, type Status } from "../src/status.js";

const running: Status = { process: "running", enabled: true, notice: QUIET };

group("view", () => {
  test.each<[string, Status, string, string | undefined]>([
    ["quiet", running, "$(flame) Hearth", undefined],
    ["busy", { ...running, notice: { ...QUIET, busy: true } }, "$(loading~spin) Hearth", undefined],
    ["warning", { ...running, notice: { ...QUIET, kind: "Warning", busy: true } }, "$(warning) Hearth", "warning"],
    ["error", { ...running, notice: { ...QUIET, kind: "Error" } }, "$(error) Hearth", "error"],
    ["inactive", { ...running, notice: { ...QUIET, kind: "Inactive" } }, "$(circle-slash) Hearth", undefined],
    ["off by the user", { ...running, enabled: false }, "$(circle-slash) Hearth", undefined],
    ["starting", { ...running, process: "starting" }, "$(loading~spin) Hearth", undefined],
    ["restarting", { ...running, process: "restarting" }, "$(loading~spin) Hearth", "warning"],
    ["missing", { ...running, process: "missing" }, "$(error) Hearth", "error"],
    ["failed", { ...running, process: "failed" }, "$(error) Hearth", "error"],
    ["stopped", { ...running, process: "off" }, "$(circle-slash) Hearth", undefined],
  ])("%s", (_name, status, text, background) => {
    expect(view(status)).toEqual({ text, background, tooltip: `Hearth: ${describe(status)}` });
  });
});

test("describe adds what the server says, and an old notice does not outlive the server", () => {
  const notice = { ...QUIET, message: "loading the model" };
  expect(describe({ ...running, notice })).toBe("The server is running. loading the model");
  expect(describe({ ...running, process: "restarting", notice })).not.toContain("loading");
  expect(describe({ ...running, enabled: false })).toBe("The server is running. Suggestions are off.");
});

test("parseNotice takes what it can and nothing wrong", () => {
  expect(parseNotice({ busy: true, kind: "Inactive", message: "too large" })).toEqual({
    busy: true,
    kind: "Inactive",
    message: "too large",
  });
  expect(parseNotice({ busy: "yes", kind: "Funny", message: 7 })).toEqual(QUIET);
  expect(parseNotice(null)).toBeUndefined();
  expect(parseNotice("busy")).toBeUndefined();
});
