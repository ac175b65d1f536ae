"""Where a suggestion's tail and the text after the cursor are the same, that tail goes.

Compared token by token, so that blanks do not matter and no word is cut; across a line end, only whole
lines of equal indentation count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lsp_server.inline_completion.policy.brackets import unclosed, unopened
from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.lexer import CLOSERS, PAIRS, scan
from lsp_server.inline_completion.policy.tail import blocking_tail

_TOKEN = re.compile(r"\n\s*\n?[ \t]*|\w+|[^\w\s]")
# More than a suggestion can hold.
_MAX_TOKENS = 400


@dataclass(frozen=True)
class Token:
    """offset: where it starts. text: the token; a line end with the indentation after it is one."""

    offset: int
    text: str

    @property
    def is_line_end(self) -> bool:
        return self.text.startswith("\n")


def _tokens(text: str) -> list[Token]:
    result = []
    for match in _TOKEN.finditer(text):
        found = match.group()
        # Blank lines between are of no weight: only the last line's indentation is kept.
        result.append(Token(match.start(), "\n" + found.rpartition("\n")[2] if found[0] == "\n" else found))
        if len(result) == _MAX_TOKENS:
            break
    return result


def trim_overlap(text: str, cursor: Cursor) -> str:
    """`text` without the longest tail that the suffix begins with.

    A tail that is only the closing of the cursor's own line is left: the range covers it (see cover).
    """
    written = _tokens(text)
    if not cursor.line_prefix.strip():
        written.insert(0, Token(0, "\n" + cursor.line_prefix))
    following = _tokens(cursor.suffix)
    for tokens in (written, following):
        while tokens and tokens[-1].is_line_end:
            tokens.pop()
    if not following or not written:
        return text
    for size in range(min(len(written), len(following)), 0, -1):
        tail, head = written[-size:], following[:size]
        if [token.text for token in tail] != [token.text for token in head]:
            continue
        if _allowed(written[:-size], tail, following[size : size + 1], cursor):
            return text[: tail[0].offset]
    return text


def _allowed(kept: list[Token], tail: list[Token], after: list[Token], cursor: Cursor) -> bool:
    if tail[0].is_line_end:
        ends_line = not after or after[0].is_line_end
        return len(tail) > 1 and ends_line and _closes_nothing(kept, tail)
    one_line = not any(token.is_line_end for token in tail)
    if one_line and not blocking_tail(cursor.line_suffix):
        return False
    if one_line and (not after or after[0].is_line_end) and _line_lacks_openers(cursor):
        return True
    return _closes_nothing(kept, tail)


def _line_lacks_openers(cursor: Cursor) -> bool:
    """Whether the rest of the cursor's line closes more than stands open there: `return ¦text)` waits for
    a suggestion that opens a bracket and leaves the closing to the line."""
    opened = unclosed(scan(cursor.near_before, cursor.language).brackets)
    closed = unopened(scan(cursor.line_suffix, cursor.language, cursor.state).brackets)
    return sum(mark.text in CLOSERS for mark in closed) > len(opened)


def _closes_nothing(kept: list[Token], tail: list[Token]) -> bool:
    """Whether no bracket of the tail closes one that the kept part opens."""
    depth: list[str] = []
    for token in kept:
        if token.text in PAIRS:
            depth.append(PAIRS[token.text])
        elif depth and token.text == depth[-1]:
            depth.pop()
    opened = 0
    for token in tail:
        if token.text in PAIRS:
            opened += 1
        elif token.text in PAIRS.values():
            if opened == 0 and depth:
                return False
            opened = max(0, opened - 1)
    return True
