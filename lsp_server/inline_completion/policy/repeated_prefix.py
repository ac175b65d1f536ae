"""A suggestion that begins by writing again what stands left of the cursor: that beginning goes."""

from __future__ import annotations

import re

from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.indentation import indent_width, leading

_FIRST_WORD = re.compile(r"\w+")
# A shorter word may well begin the next one by right ("re" before "read").
_MIN_WORD = 3


def trim_repeated_prefix(text: str, cursor: Cursor) -> str:
    """`text` without the cursor's line or word at its start.

    A call such as `fib(` may call itself, so the line counts only when it holds several words; a word
    counts only when the suggestion's first word continues it.
    """
    line = cursor.line_prefix.strip()
    body = text.lstrip(" \t")
    if len(line.split()) > 1 and body.startswith(line):
        rest = body[len(line) :]
        return rest.lstrip(" \t") if cursor.line_prefix[-1:].isspace() else rest
    word = cursor.word_left
    first = _FIRST_WORD.match(text)
    if first and len(word) >= _MIN_WORD and first.group() != word and first.group().startswith(word):
        return text[len(word) :]
    return text


def trim_doubled_blanks(text: str, cursor: Cursor) -> str:
    """Blanks at the start that the cursor already stands behind."""
    blanks = leading(text)
    if not blanks or text.startswith("\n"):
        return text
    if cursor.line_prefix.strip():
        return text.lstrip(" \t") if cursor.line_prefix[-1].isspace() else text
    column = indent_width(cursor.line_prefix, cursor.unit)
    above = indent_width(cursor.line_above, cursor.unit) + (cursor.unit.width if cursor.after_opener else 0)
    # In a block that has text below, that text tells the depth.
    own = cursor.line_prefix + cursor.line_suffix
    below = indent_width(own if own.strip() else cursor.line_below, cursor.unit)
    room = max(0, max(above, below) - column)
    if indent_width(blanks, cursor.unit) <= room:
        return text
    kept = cursor.unit.text * (room // cursor.unit.width)
    return kept + text.lstrip(" \t")
