import { describe, expect, test } from "vitest";
import { Shown, type Item } from "../src/shown.js";

const at = (line: number, character: number) => ({ line, character });
const item = (insertText: string, line = 0, character = 0): Item => ({
  insertText,
  range: { start: at(line, character), end: at(line, character) },
});
const insert = (text: string, line = 0, character = 0, replaced = 0) => ({ start: at(line, character), replaced, text });

describe("answered", () => {
  test("tells of a new suggestion once, however it is cut while it is typed", () => {
    const shown = new Shown();
    const whole = item("return a");
    expect(shown.answered(whole, at(0, 0), "")).toBe(whole);
    expect(shown.answered(item("return a"), at(0, 2), "re")).toBeUndefined();
    expect(shown.answered({ insertText: "turn a" }, at(0, 2), "re")).toBeUndefined();
    const other = item("reset()");
    expect(shown.answered(other, at(0, 2), "re")).toBe(other);
  });
  test("after nothing, the same suggestion is new again", () => {
    const shown = new Shown();
    shown.answered(item("x"), at(0, 0), "");
    expect(shown.answered(undefined, at(0, 0), "")).toBeUndefined();
    expect(shown.answered(item("x"), at(0, 0), "")).toBeDefined();
  });
  test("the same words on another line are another suggestion", () => {
    const shown = new Shown();
    shown.answered(item("x", 0), at(0, 0), "");
    expect(shown.answered(item("x", 1), at(1, 0), "")).toBeDefined();
  });
});

describe("changed", () => {
  function showing(text: string): Shown<Item> {
    const shown = new Shown();
    shown.answered(item(text, 1, 4), at(1, 4), "    ");
    return shown;
  }
  test("a piece taken counts from the start of insertText, in UTF-16 units", () => {
    const shown = showing("'🙂' + abc");
    expect(shown.changed(insert("'🙂'", 1, 4), () => "")?.acceptedLength).toBe(4);
    expect(shown.changed(insert(" +", 1, 8), () => "'🙂'")?.acceptedLength).toBe(6);
  });
  test("one typed character, other text, a replacement, the whole and another place are none", () => {
    expect(showing("return a").changed(insert("r", 1, 4), () => "")).toBeUndefined();
    expect(showing("return a").changed(insert("raise", 1, 4), () => "")).toBeUndefined();
    expect(showing("return a").changed(insert("return", 1, 4, 1), () => "")).toBeUndefined();
    expect(showing("return a").changed(insert("return a", 1, 4), () => "")).toBeUndefined();
    expect(showing("return a").changed(insert("return", 0, 4), () => "")).toBeUndefined();
    expect(showing("return a").changed(insert("return", 1, 2), () => "")).toBeUndefined();
  });
  test("a line taken in a CRLF document", () => {
    const change = insert("if a:\r\n    ", 1, 4);
    expect(showing("if a:\n    b").changed(change, () => "")?.acceptedLength).toBe("if a:\n    ".length);
  });
  test("nothing shown, nothing taken", () => {
    expect(new Shown().changed(insert("ab"), () => "")).toBeUndefined();
  });
});
