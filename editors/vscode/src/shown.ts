// VS Code's stable API tells an extension neither that a suggestion was shown nor that a part of it was taken.
// Both are inferred here, without `vscode`, so that the rules can be tested:
// - shown: an answer that VS Code did not cancel is shown; an answer that only continues what is shown is not new.
// - a part taken: an insertion at the cursor of two characters or more that is the next piece of the suggestion.
//   One character is what a key types, so "take the next word" on a word of one letter goes unseen.

/** A position in a text: line, and character in UTF-16 units. */
export interface Place {
  line: number;
  character: number;
}

export interface Item {
  insertText: string;
  range?: { start: Place; end: Place };
}

export interface Change {
  start: Place;
  /** Length of the text replaced, in UTF-16 units. */
  replaced: number;
  text: string;
}

/** Follows one document's latest suggestion. */
export class Shown<T extends Item> {
  private item: T | undefined;
  private start: Place = { line: 0, character: 0 };
  private result = "";
  private reported = 0;

  /**
   * An answer came and was not cancelled. `left` is the line left of the cursor.
   * Returns the item when it is newly shown, undefined when it continues the one before.
   */
  answered(item: T | undefined, cursor: Place, left: string): T | undefined {
    if (item === undefined) {
      this.item = undefined;
      this.result = "";
      return undefined;
    }
    const start = item.range?.start ?? cursor;
    const result = `${start.line}:${left.slice(0, start.character)}${item.insertText}`;
    const fresh = result !== this.result;
    this.item = item;
    this.start = start;
    this.result = result;
    if (fresh) {
      this.reported = 0;
    }
    return fresh ? item : undefined;
  }

  /**
   * The document changed. Returns the item and how much of its insertText is in the document now, in UTF-16 units
   * from its start, when the change took a part of it. `before` is the text between the range's start and the change.
   */
  changed(change: Change, before: (start: Place) => string): { item: T; acceptedLength: number } | undefined {
    const item = this.item;
    if (item === undefined || change.replaced > 0 || change.text.length < 2) {
      return undefined;
    }
    const { start } = this;
    const ahead = change.start.line > start.line || change.start.character >= start.character;
    if (change.start.line < start.line || !ahead) {
      return undefined;
    }
    const soFar = toLf(before(start) + change.text);
    const whole = toLf(item.insertText);
    if (!whole.startsWith(soFar) || soFar.length >= whole.length || soFar.length <= this.reported) {
      return undefined;
    }
    this.reported = soFar.length;
    return { item, acceptedLength: soFar.length };
  }
}

function toLf(text: string): string {
  return text.replace(/\r\n?/g, "\n");
}
