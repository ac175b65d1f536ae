"""What gets typed in `bench.lsp_keys`, and where: three short files of our own, and a real, long one."""

from __future__ import annotations

import argparse
import ast
import string
from dataclasses import dataclass
from pathlib import Path

BACKSPACE = "\b"
_KEYS_PER_ERROR = 60  # in text that has no typing errors of its own

# What stands in the file, with the place where the typing happens, and what is typed: \b takes a key back.
_OWN = {
    "python": (
        "import csv\nfrom pathlib import Path\n\n\ndef read_rows(path: Path) -> list[dict[str, str]]:\n"
        '    """Every row of a CSV file."""\n    with path.open(newline="") as file:\n'
        "        return list(csv.DictReader(file))\n\n\n¦\n\n\n"
        'if __name__ == "__main__":\n    print(total_by_name(read_rows(Path("sales.csv"))))\n',
        "def total_by_name(rows: list[dict[str, str]]) -> dict[str, float]:\n"
        '    totals: dict[str, fla\b\boat] = {}\n    for row in rows:\n        name = row["name"]\n'
        '        totals[name] = totals.get(name, 0.0) + float(row["amuo\b\bount"])\n    return totals',
    ),
    "typescript": (
        "export interface Item {\n  name: string;\n  price: number;\n  count: number;\n}\n\n"
        "export function subtotal(item: Item): number {\n  return item.price * item.count;\n}\n\n¦\n\n"
        "export function print(items: Item[]): void {\n  console.log(total(items).toFixed(2));\n}\n",
        "export function total(items: Item[]): number {\n  let sum = 0;\n"
        "  for (const itme\b\bem of items) {\n"
        "    sum += subtotal(item);\n  }\n  return sum;\n}",
    ),
    "rust": (
        "use std::collections::HashMap;\n\n/// Words of a text, in lower case.\n"
        "pub fn words(text: &str) -> Vec<String> {\n"
        "    text.split_whitespace().map(|w| w.to_lowercase()).collect()\n}\n\n¦\n\nfn main() {\n"
        '    println!("{:?}", longest(&words("a bb ccc")));\n}\n',
        "pub fn longest(words: &[String]) -> Option<&String> {\n"
        "    let mut best: Option<&Srt\b\btring> = None;\n"
        "    for word in words {\n"
        "        if best.map_or(true, |b| word.len() > b.len()) {\n            best = Some(word);\n"
        "        }\n    }\n    best\n}",
    ),
}
_SUFFIXES = {"python": ".py", "typescript": ".ts", "rust": ".rs"}


@dataclass(frozen=True)
class Stream:
    """A document, cut where the typing happens, and the keys. All of it is ASCII.

    name: of the file.
    """

    name: str
    language: str
    before: str
    after: str
    typed: str


def streams() -> list[Stream]:
    """All of them, in the order in which they are typed."""
    own = []
    for language, (document, typed) in _OWN.items():
        before, after = document.split("¦")
        own.append(Stream(f"typed{_SUFFIXES[language]}", language, before, after, typed))
    return [*own, long_file()]


def long_file() -> Stream:
    """A function in the middle of the standard library's argparse.py (2,600 lines), typed anew."""
    text = Path(argparse.__file__).read_text(encoding="utf-8")
    before, typed, after = cut_function(text, "_handle_conflict_resolve")
    return Stream("argparse.py", "python", before, after, with_errors(typed))


def cut_function(text: str, name: str) -> tuple[str, str, str]:
    """The text before a function, the function from its `def` to its last character, the text after it."""
    found = next(
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name == name
    )
    assert found.end_lineno is not None
    assert found.end_col_offset is not None
    lines = text.splitlines(keepends=True)
    start = len("".join(lines[: found.lineno - 1])) + found.col_offset
    end = len("".join(lines[: found.end_lineno - 1])) + found.end_col_offset
    return text[:start], text[start:end], text[end:]


def with_errors(text: str) -> str:
    """The keys for a text: every sixtieth letter is preceded by its neighbour in the alphabet, taken back."""
    keys, since = "", 0
    for character in text:
        since += 1
        if since >= _KEYS_PER_ERROR and character in string.ascii_lowercase[:-1]:
            keys, since = keys + chr(ord(character) + 1) + BACKSPACE, 0
        keys += character
    return keys
