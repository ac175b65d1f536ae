"""Stop rules, applied while the model writes, so that the engine stops as soon as enough is there.

Every rule looks at the text so far and answers where to cut it, or None to go on. The earliest cut
wins. `final` says that no more text will come, so that the last line counts as whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from lsp_server.inline_completion.policy.brackets import unclosed, unopened
from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.indentation import indent_width
from lsp_server.inline_completion.policy.lexer import CLOSERS, scan
from lsp_server.inline_completion.policy.markers import (
    closing_fence,
    find_marker,
    may_open_fence,
    opening_fence,
)
from lsp_server.inline_completion.policy.mode import Mode
from lsp_server.inline_completion.policy.silence import significant

MAX_LINES = 24
# From this many lines on, a blank line is a good place to end.
BLANK_LINE_ENDS_AFTER = 10
# Up to LOOP_LINES lines, LOOP_REPEATS times over, are a loop; so is a short piece, again and again, over
# _LOOP_LENGTH characters.
LOOP_LINES = 4
LOOP_REPEATS = 3
_LOOP = re.compile(r"(\S.{0,23}?)\1{5,}\Z", re.DOTALL)
_LOOP_LENGTH = 48
# After such a line no line of its block would run, so not the line below the cursor either.
_LEAVES = frozenset({"return", "raise", "throw", "break", "continue"})
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Cut:
    """Keep the first `keep` characters; rule names the reason."""

    keep: int
    rule: str


@dataclass(frozen=True)
class Line:
    """A line of a suggestion: where it starts, its text, whether its end has been written."""

    start: int
    text: str
    whole: bool


@dataclass(frozen=True)
class Draft:
    """The text so far, where it is to stand, and whether it is all."""

    text: str
    cursor: Cursor
    final: bool

    @cached_property
    def lines(self) -> list[Line]:
        result, start = [], 0
        pieces = self.text.split("\n")
        for index, piece in enumerate(pieces):
            result.append(Line(start, piece, self.final or index < len(pieces) - 1))
            start += len(piece) + 1
        return result


def find_cut(text: str, cursor: Cursor, mode: Mode, *, final: bool) -> Cut | None:
    """The earliest cut that any rule asks for. A code fence that opens the text is stepped over first."""
    skipped = opening_fence(text, cursor)
    if not final and not skipped and may_open_fence(text, cursor):
        return None
    draft = Draft(text[skipped:], cursor, final)
    rules: tuple[Rule, ...] = _SINGLE if mode is Mode.SINGLE else _MULTI
    cuts = [cut for rule in rules if (cut := rule(draft)) is not None]
    closing = closing_fence(draft.text) if skipped else None
    if closing is not None:
        cuts.append(Cut(closing, "code fence"))
    first = min(cuts, key=lambda cut: cut.keep, default=None)
    return Cut(first.keep + skipped, first.rule) if first else None


def _first_newline(draft: Draft) -> Cut | None:
    newline = draft.text.find("\n")
    return Cut(newline, "one line") if newline >= 0 else None


def _marker(draft: Draft) -> Cut | None:
    found = find_marker(draft.text, draft.cursor.prefix + draft.cursor.suffix)
    return Cut(found, "control marker") if found is not None else None


def _closes_unopened(draft: Draft) -> Cut | None:
    """A bracket that closes what the document already closes, or never opened."""
    text, cursor = draft.text, draft.cursor
    if cursor.language.prose:
        return None
    tail = cursor.line_suffix.replace(" ", "").replace("\t", "")
    missing = list(cursor.missing)
    for mark in unopened(scan(text, cursor.language, cursor.state).brackets):
        if tail.startswith(mark.text):
            tail = tail[len(mark.text) :].lstrip(";,")
        elif mark.text not in CLOSERS:
            continue
        elif missing and missing[0] == mark.text:
            missing.pop(0)
        else:
            return Cut(mark.offset, "closes what is not open")
    return None


def block_floor(cursor: Cursor) -> int:
    """The least indentation, in columns, that a line of the cursor's block can have."""
    column = indent_width(cursor.line_prefix, cursor.unit)
    if not cursor.after_opener:
        return column
    if cursor.line_prefix.strip():
        return column + 1
    return max(column, indent_width(cursor.line_above, cursor.unit) + 1)


def _free_lines(draft: Draft) -> Iterator[tuple[Line, bool]]:
    """Second and later lines with text that start outside brackets and strings; whether blanks precede."""
    text, cursor = draft.text, draft.cursor
    gap = False
    for line in draft.lines[1:]:
        if not line.text.strip():
            gap = True
            continue
        before = scan(text[: line.start], cursor.language, cursor.state)
        if not unclosed(before.brackets) and not before.state:
            yield line, gap
        gap = False


@dataclass(frozen=True)
class Enclosing:
    """The lines that the cursor's block is inside of, told by indentation.

    levels: indentations of the statements round the block, within its definition.
    definition: indentation of that definition; -1 where there is none.
    """

    levels: frozenset[int]
    definition: int


def enclosing(cursor: Cursor) -> Enclosing:
    """Read the lines above, from the inside out."""
    inner = block_floor(cursor)
    levels: set[int] = set()
    for line in reversed(cursor.prefix.split("\n")[:-1]):
        indent = indent_width(line, cursor.unit)
        if line.strip() and indent < inner:
            inner = indent
            if line.lstrip().startswith(cursor.language.definitions):
                return Enclosing(frozenset(levels), indent)
            levels.add(indent)
    return Enclosing(frozenset(levels), -1)


def _first_word(code: str) -> str:
    match = _WORD.match(code)
    return match.group() if match else ""


def _may_go_on(line: str, indent: int, around: Enclosing, cursor: Cursor) -> bool:
    """Whether a line further out than the cursor's block still belongs to the hole.

    The hole reaches as far out as the file goes on below, or, where the definition has nothing more below,
    to the definition's end.
    """
    code = line.lstrip()
    if indent not in around.levels or code.startswith(cursor.language.definitions):
        return False
    below = indent_width(cursor.line_below, cursor.unit)
    if around.definition >= 0 and below <= around.definition:
        return True
    if indent == below and _first_word(code) in _LEAVES:
        return False
    return indent >= below > 0 or (around.definition >= 0 and _first_word(code) in cursor.language.clauses)


def _block_end(draft: Draft) -> Cut | None:
    cursor = draft.cursor
    floor = block_floor(cursor)
    deeper = False
    for line, gap in _free_lines(draft):
        indent = indent_width(line.text, cursor.unit)
        if line.text.lstrip()[0] in CLOSERS:
            continue
        if indent < floor:
            around = enclosing(cursor)
            if (
                indent in around.levels
                and not line.whole
                and _first_word(line.text.lstrip()) == line.text.lstrip()
            ):
                return None  # its first word may not be all there
            if (gap and around.definition < 0) or not _may_go_on(line.text, indent, around, cursor):
                return Cut(line.start, "block end")
            floor, deeper = indent, False
            continue
        if not cursor.after_opener and indent == floor and gap and (deeper or floor == 0):
            return Cut(line.start, "next unit")
        deeper = deeper or indent > floor
    return None


def _reaches_suffix(draft: Draft) -> Cut | None:
    """The model writes again the line that follows the cursor."""
    cursor = draft.cursor
    first = 0 if cursor.before_line else 1
    following = [line.rstrip() for line in cursor.suffix.split("\n")[first:40] if line.strip()][:2]
    if not following:
        return None
    lines = [line for line in draft.lines if line.whole and line.text.strip()]
    for index, line in enumerate(lines):
        written = (cursor.line_prefix if line.start == 0 else "") + line.text
        if written.rstrip() != following[0]:
            continue
        if significant(following[0]):
            return Cut(line.start, "reaches the text below")
        if len(following) > 1 and index + 1 < len(lines) and lines[index + 1].text.rstrip() == following[1]:
            return Cut(line.start, "reaches the text below")
    return None


def _blank_lines(draft: Draft) -> Cut | None:
    blank = 0
    for index, line in enumerate(draft.lines):
        if line.text.strip():
            blank = 0
            continue
        blank += line.whole
        if index > 0 and (blank > 1 or (blank and index >= BLANK_LINE_ENDS_AFTER)):
            return Cut(line.start, "blank line")
    return None


def _too_long(draft: Draft) -> Cut | None:
    return Cut(draft.lines[MAX_LINES].start, "line limit") if len(draft.lines) > MAX_LINES else None


def _loops(draft: Draft) -> Cut | None:
    lines = [line for line in draft.lines if line.whole and line.text.strip()]
    texts = [line.text.strip() for line in lines]
    for period in range(1, LOOP_LINES + 1):
        for start in range(len(lines) - LOOP_REPEATS * period + 1):
            unit = texts[start : start + period]
            if texts[start : start + LOOP_REPEATS * period] == unit * LOOP_REPEATS and any(
                map(significant, unit)
            ):
                last = lines[start + period - 1]
                return Cut(last.start + len(last.text), "repeats itself")
    match = _LOOP.search(draft.text, max(0, len(draft.text) - 4 * _LOOP_LENGTH))
    if match and len(match.group()) >= _LOOP_LENGTH and len(set(match.group(1))) > 1:
        return Cut(match.end(1), "repeats itself")
    return None


Rule = Callable[[Draft], Cut | None]
_SINGLE: tuple[Rule, ...] = (_first_newline, _marker, _closes_unopened, _loops)
_MULTI: tuple[Rule, ...] = (
    _marker,
    _closes_unopened,
    _block_end,
    _reaches_suffix,
    _blank_lines,
    _too_long,
    _loops,
)
