"""A naive mirror of a document that walks one character at a time: slow, and close to the specification."""

from __future__ import annotations

import re

import pytest

from lsp_server.documents.encoding import PositionEncoding


class NaiveDocument:
    """Text as Python characters; positions by walking one character at a time."""

    def __init__(self, text: str, encoding: PositionEncoding) -> None:
        self.text = text
        self.encoding = encoding

    def width(self, char: str) -> int:
        if self.encoding is PositionEncoding.UTF32:
            return 1
        if self.encoding is PositionEncoding.UTF16:
            return 2 if ord(char) > 0xFFFF else 1
        return len(char.encode("utf-8", "surrogatepass"))

    def lines(self) -> list[tuple[int, int]]:
        """(start, end of content) of every line."""
        spans, start = [], 0
        for match in re.finditer("\r\n|\r|\n", self.text):
            spans.append((start, match.start()))
            start = match.end()
        return [*spans, (start, len(self.text))]

    def offset(self, line: int, character: int) -> int:
        lines = self.lines()
        if line >= len(lines):
            return len(self.text)
        start, end = lines[line]
        units = 0
        for offset in range(start, end):
            units += self.width(self.text[offset])
            if units > character:
                return offset
        return end

    def position(self, offset: int) -> tuple[int, int]:
        lines = self.lines()
        line = max(number for number, (start, _) in enumerate(lines) if start <= offset)
        start, end = lines[line]
        return line, sum(self.width(char) for char in self.text[start : min(offset, end)])

    def replace(self, start: tuple[int, int], end: tuple[int, int], new: str) -> None:
        low, high = sorted((self.offset(*start), self.offset(*end)))
        joined = self.text[:low] + new + self.text[high:]
        # Two halves of a pair that meet are one character.
        self.text = joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@pytest.fixture
def naive() -> type[NaiveDocument]:
    return NaiveDocument
