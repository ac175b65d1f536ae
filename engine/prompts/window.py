"""Cutting a document's text to a number of tokens without disturbing the KV cache.

While a user types, the prefix grows by a character a request. A window that always held its last N
tokens would start elsewhere each time, and nothing computed before could be reused. So a window starts
only at anchors: one every `grid` characters, counted from the start of the document and moved to the
next line start. The start stays put until the window is full, then jumps a whole step.

Callers that clip a document themselves must therefore clip at a place that is as steady.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.tokenizer import Tokenizer

# Code has 2.5 to 4 characters a token; runs of blanks and long words have more. Text beyond the second
# number is never tokenised, text beyond the first only when that much was not enough.
_USUAL_CHARACTERS_PER_TOKEN = 4
_CHARACTERS_PER_TOKEN = 8
_STEPS_PER_WINDOW = 4
_SHORTEST_GRID = 32
STEADY_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Window:
    """A part text[start:end] of a document and its token ids."""

    ids: list[int]
    start: int
    end: int


def clip_length(tokens: int) -> int:
    """The most characters that are looked at to fill so many tokens."""
    return max(0, tokens) * _CHARACTERS_PER_TOKEN


def count_up_to(tokenizer: Tokenizer, text: str, tokens: int, *, from_end: bool) -> int:
    """Tokens of text, looking no further than the answer "more than `tokens`" needs."""
    count = 0
    for clip in (tokens * _USUAL_CHARACTERS_PER_TOKEN, tokens * _CHARACTERS_PER_TOKEN):
        count = tokenizer.count(text[max(0, len(text) - clip) :] if from_end else text[: max(0, clip)])
        if count > tokens or clip >= len(text):
            break
    return count


def prefix_window(tokenizer: Tokenizer, text: str, tokens: int, lead: str = "") -> Window:
    """The end of text, from an anchor on, in at most `tokens` tokens.

    lead: text that the format puts before the window; it counts.
    """
    grid = _grid(tokens)
    settled = steady(text)
    start = _earliest_anchor(tokenizer, settled, tokens - STEADY_CHARACTERS, grid, lead)
    if start is not None:
        ids = _encode(tokenizer, lead + text[start:])
        if len(ids) <= tokens:
            return Window(ids, start, len(text))
    start = _earliest_anchor(tokenizer, text, tokens, grid, lead)
    if start is None:
        return _last_resort(tokenizer, text, tokens, lead)
    return Window(_encode(tokenizer, lead + text[start:]), start, len(text))


def steady(text: str) -> str:
    """Text without what follows its last sixteenth character.

    Sizes are measured on this. Tokens merge as a word grows, so a key can lower a count as well as raise
    it, and a start that followed each count would swing back and forth.
    """
    return text[: len(text) // STEADY_CHARACTERS * STEADY_CHARACTERS]


def _earliest_anchor(tokenizer: Tokenizer, text: str, tokens: int, grid: int, lead: str) -> int | None:
    """The first anchor from which the rest of text fits; None when not even the last one does."""
    found = None
    for clip in (tokens * _USUAL_CHARACTERS_PER_TOKEN, tokens * _CHARACTERS_PER_TOKEN):
        first = -(-max(0, len(text) - max(0, clip)) // grid)
        cell = first
        while cell == 0 or cell * grid < len(text):
            found = _anchor(text, cell, grid) if cell else 0
            ids = _encode(tokenizer, lead + text[found:])
            if len(ids) <= tokens:
                break
            found = None
            cell = max(cell + 1, _cell_that_may_fit(tokenizer, text, ids, tokens, grid))
        if cell > first or first == 0:  # an anchor before this one was tried, or there is none
            break
    return found


def suffix_window(tokenizer: Tokenizer, text: str, tokens: int) -> Window:
    """The beginning of text, to the end of a line, in at most `tokens` tokens."""
    tokens = max(0, tokens)
    clipped = text[: clip_length(tokens)]
    ids = _encode(tokenizer, clipped)
    if len(ids) <= tokens and len(clipped) == len(text):
        return Window(ids, 0, len(text))
    fits = len(tokenizer.decode(ids[:tokens]))
    while True:
        line_end = clipped.rfind("\n", 0, fits) + 1
        # One line longer than the window is cut where it must be.
        end = line_end or fits
        ids = _encode(tokenizer, clipped[:end])
        if len(ids) <= tokens:
            return Window(ids, 0, end)
        fits = end - 1


def _grid(tokens: int) -> int:
    """Characters a step: a power of two near a quarter of the window at 3 characters a token."""
    step = max(_SHORTEST_GRID, tokens * 3 // _STEPS_PER_WINDOW)
    return 1 << (step.bit_length() - 1)


def _anchor(text: str, cell: int, grid: int) -> int:
    """The first line start of a cell, or the cell's border where it lies in one long line."""
    border = cell * grid
    newline = text.find("\n", border - 1, border + grid - 1)
    return border if newline < 0 else newline + 1


def _cell_that_may_fit(tokenizer: Tokenizer, text: str, ids: list[int], tokens: int, grid: int) -> int:
    """The first cell after the place where the last `tokens` of ids begin: saves trying each cell."""
    kept = len(tokenizer.decode(ids[len(ids) - max(0, tokens) :]))
    return (len(text) - kept) // grid


def _last_resort(tokenizer: Tokenizer, text: str, tokens: int, lead: str) -> Window:
    """For windows of a few tokens: as much of the end as fits, steady or not."""
    start = max(0, len(text) - clip_length(tokens))
    while True:
        ids = _encode(tokenizer, lead + text[start:])
        if len(ids) <= tokens:
            return Window(ids, start, len(text))
        if start >= len(text):
            return Window([], len(text), len(text))
        start += max(1, (len(text) - start) // 8)


def _encode(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text) if text else []
