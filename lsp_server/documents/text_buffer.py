"""An immutable text cut into chunks, so that a keystroke copies kilobytes even in a file of many megabytes.

Lines end at LF, CRLF and CR, and nowhere else (LSP specification, "Text Documents"): form feed, vertical tab,
NEL and U+2028 are ordinary characters. Two invariants keep chunks independent of each other: a CRLF is never
cut in two, nor are two halves of a surrogate pair. Edited copies share all untouched chunks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from lsp_server.documents.encoding import (
    PositionEncoding,
    count_units,
    is_high_surrogate,
    is_low_surrogate,
    join_surrogates,
)

CHUNK_SIZE = 16_384  # code points; large enough for few chunks, small enough to rescan within a keystroke
_MERGE_BELOW = CHUNK_SIZE // 4
_LINE_END = re.compile(r"\r\n|\r|\n")


class Chunk:
    """A piece of text with its line ends and unit counts, computed once."""

    __slots__ = ("_ends", "_units", "crlfs", "holds_nul", "line_ends", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.line_ends = text.count("\n")
        self.crlfs = 0
        if "\r" in text:
            self.crlfs = text.count("\r\n")
            self.line_ends += text.count("\r") - self.crlfs
        self.holds_nul = "\0" in text
        self._ends: list[int] | None = None
        self._units: dict[PositionEncoding, int] = {}

    def ends(self) -> list[int]:
        """Offsets within the chunk just after each line end, ascending."""
        if self._ends is None:
            self._ends = [match.end() for match in _LINE_END.finditer(self.text)]
        return self._ends

    def units(self, encoding: PositionEncoding) -> int:
        """Code units of the whole chunk."""
        if encoding not in self._units:
            self._units[encoding] = count_units(self.text, encoding)
        return self._units[encoding]


class Piece(NamedTuple):
    """The part [start, end) of one chunk; offset is where the part begins in the whole text."""

    offset: int
    chunk: Chunk
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.chunk.text[self.start : self.end]

    def units(self, encoding: PositionEncoding) -> int:
        """Code units of the part."""
        if self.start == 0 and self.end == len(self.chunk.text):
            return self.chunk.units(encoding)
        return count_units(self.text, encoding)


class TextBuffer:
    """The text of one document version. All offsets are code points."""

    __slots__ = ("_chunks", "_lines_before", "_offsets", "_text")

    def __init__(self, chunks: tuple[Chunk, ...]) -> None:
        self._chunks = chunks
        # Both have one entry more than there are chunks: the last is the total.
        self._offsets = list(accumulate((len(chunk.text) for chunk in chunks), initial=0))
        self._lines_before = list(accumulate((chunk.line_ends for chunk in chunks), initial=0))
        self._text: str | None = None

    @classmethod
    def from_text(cls, text: str) -> TextBuffer:
        """A buffer that holds `text`."""
        return cls(tuple(Chunk(part) for part in _cut(text)))

    def __len__(self) -> int:
        return self._offsets[-1]

    @property
    def line_count(self) -> int:
        """Lines, counting the one after the last line end even when it is empty; at least 1."""
        return self._lines_before[-1] + 1

    @property
    def text(self) -> str:
        """The whole text; joined on first use and kept."""
        if self._text is None:
            self._text = "".join(chunk.text for chunk in self._chunks)
        return self._text

    @property
    def holds_nul(self) -> bool:
        """Whether a NUL character occurs anywhere."""
        return any(chunk.holds_nul for chunk in self._chunks)

    def lf_length(self, end: int) -> int:
        """Characters in [0, end), were every CRLF one character."""
        index = self._chunk_at(end)
        base = self._offsets[index]
        whole = sum(chunk.crlfs for chunk in self._chunks[:index])
        return end - whole - self._chunks[index].text.count("\r\n", 0, end - base)

    def shared_ends(self, other: TextBuffer) -> tuple[int, int]:
        """Characters at the start and at the end that both have, told by the chunks that they share."""
        start, end = 0, 0
        for mine, theirs in zip(self._chunks, other._chunks, strict=False):
            if mine is not theirs:
                break
            start += len(mine.text)
        for mine, theirs in zip(reversed(self._chunks), reversed(other._chunks), strict=False):
            if mine is not theirs:
                break
            end += len(mine.text)
        return start, end

    def size_in(self, encoding: PositionEncoding) -> int:
        """Code units of the whole text."""
        return sum(chunk.units(encoding) for chunk in self._chunks)

    def pieces(self, start: int, end: int) -> Iterator[Piece]:
        """The non-empty parts of chunks that make up [start, end), in order; never past the text's end."""
        end = min(end, len(self))
        index = self._chunk_at(start)
        while start < end:
            base = self._offsets[index]
            stop = min(end, self._offsets[index + 1])
            if start < stop:
                yield Piece(start, self._chunks[index], start - base, stop - base)
            start, index = stop, index + 1

    def slice(self, start: int, end: int) -> str:
        """The text in [start, end)."""
        return "".join(piece.text for piece in self.pieces(start, end))

    def line_start(self, line: int) -> int:
        """Offset of the first character of a line; `line` must be below line_count."""
        if line == 0:
            return 0
        index = bisect_right(self._lines_before, line - 1) - 1
        return self._offsets[index] + self._chunks[index].ends()[line - 1 - self._lines_before[index]]

    def line_span(self, line: int) -> tuple[int, int]:
        """Start and end of a line's content, its line end left out."""
        start = self.line_start(line)
        if line + 1 == self.line_count:
            return start, len(self)
        end = self.line_start(line + 1)
        return start, end - (2 if self.slice(max(start, end - 2), end) == "\r\n" else 1)

    def line_at(self, offset: int) -> int:
        """The line that holds the character at `offset` (the last line for the end of the text)."""
        index = self._chunk_at(offset)
        return self._lines_before[index] + bisect_right(
            self._chunks[index].ends(), offset - self._offsets[index]
        )

    def replace(self, start: int, end: int, new: str) -> TextBuffer:
        """A buffer with [start, end) replaced by `new`; this one stays as it is."""
        first, last = self._chunk_at(start), self._chunk_at(end)
        head = self._chunks[first].text[: start - self._offsets[first]]
        tail = self._chunks[last].text[end - self._offsets[last] :]
        middle = _weld(_weld(head, new), tail)
        # Take in a neighbour that must not stay apart, or that keeps the chunk from being tiny.
        if first > 0 and _must_join(self._chunks[first - 1].text, middle):
            first -= 1
            middle = _weld(self._chunks[first].text, middle)
        if last + 1 < len(self._chunks) and _must_join(middle, self._chunks[last + 1].text):
            last += 1
            middle = _weld(middle, self._chunks[last].text)
        fresh = tuple(Chunk(part) for part in _cut(middle))
        return TextBuffer(self._chunks[:first] + fresh + self._chunks[last + 1 :])

    def _chunk_at(self, offset: int) -> int:
        """Index of the chunk with the character at `offset`; the last one for the end of the text."""
        return min(bisect_right(self._offsets, offset) - 1, len(self._chunks) - 1)


def _cut(text: str) -> list[str]:
    """Parts of at most about CHUNK_SIZE, at least one, never cutting a CRLF."""
    if len(text) <= 2 * CHUNK_SIZE:
        return [text]
    parts = []
    start = 0
    while start < len(text):
        end = start + CHUNK_SIZE
        if text[end - 1 : end + 1] == "\r\n":
            end += 1
        parts.append(text[start:end])
        start = end
    return parts


def _weld(left: str, right: str) -> str:
    """left + right; two half characters that meet become one."""
    if left and right and is_high_surrogate(left[-1]) and is_low_surrogate(right[0]):
        return left[:-1] + join_surrogates(left[-1] + right[0]) + right[1:]
    return left + right


def _must_join(left: str, right: str) -> bool:
    if not left or not right or min(len(left), len(right)) < _MERGE_BELOW:
        return True
    return left[-1] + right[0] == "\r\n" or (is_high_surrogate(left[-1]) and is_low_surrogate(right[0]))
