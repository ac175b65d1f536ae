"""Characters as they arrive, for parsers written as generators that pause where they need to see more.

A parser decides only on what it has seen whole, or at the end of the text; so what it finds cannot depend on
how the text was cut into pieces. It never goes back, so its work is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Parsing = Generator[None, None, T]
"""A parser: it yields where it needs more text, and in the end returns a T."""

_BLANKS = re.compile(r"[ \t\r\n]*")


class Reader:
    """The text that was fed and not yet taken."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self.final = False
        """Whether nothing more will be fed."""
        self.cut = False
        """Whether the text ended before its writer did."""

    def feed(self, text: str) -> None:
        self._text = self._text[self._at :] + text
        self._at = 0

    def __bool__(self) -> bool:
        """Whether there is text to take now."""
        return self._at < len(self._text)

    @property
    def rest(self) -> str:
        """What was fed and not yet taken."""
        return self._text[self._at :]

    def next(self) -> Parsing[str]:
        """The next character, not taken; "" at the end."""
        while not self and not self.final:
            yield
        return self._text[self._at : self._at + 1]

    def starts(self, *words: str) -> Parsing[str]:
        """The first of these words that the text begins with, not taken; "" for none."""
        while True:
            here = self._text[self._at : self._at + max(map(len, words))]
            undecided = False
            for word in words:
                if here.startswith(word):
                    return word
                undecided = undecided or word.startswith(here)
            if not undecided or self.final:
                return ""
            yield

    def comes_after_blanks(self, offset: int, *words: str) -> Parsing[bool]:
        """Whether one of these words, or the end, follows the blanks after the next `offset` characters."""
        # From the start of what was not taken: feeding moves it to 0.
        ahead = self._at + offset
        while True:
            match = _BLANKS.match(self._text, ahead)
            ahead = match.end() if match else ahead
            here = self._text[ahead : ahead + max(map(len, words))]
            if any(here.startswith(word) for word in words):
                return True
            if self.final:
                return not here
            if not any(word.startswith(here) for word in words):
                return False
            ahead -= self._at
            yield
            ahead += self._at

    def take(self, count: int) -> str:
        """Take up to so many characters, as far as they are here."""
        taken = self._text[self._at : self._at + count]
        self._at += len(taken)
        return taken

    def run(self, pattern: re.Pattern[str]) -> str:
        """Take what the pattern matches here and now; it must match each part of what it matches."""
        match = pattern.match(self._text, self._at)
        return self.take(match.end() - self._at) if match else ""

    def blanks(self) -> Parsing[str]:
        """Take the blanks that come next, all of them."""
        taken: list[str] = []
        while (yield from self.next()) in (" ", "\t", "\r", "\n"):
            taken.append(self.run(_BLANKS))
        return "".join(taken)

    def until(self, ends: str, forbidden: str, limit: int) -> Parsing[str]:
        """Take at most `limit` characters up to one of `ends` (not taken), a forbidden one, or the end."""
        taken = ""
        while len(taken) < limit:
            character = yield from self.next()
            if not character or character in ends or character in forbidden:
                break
            taken += self.take(1)
        return taken
