"""Ending a generation at a string or at a token."""

from __future__ import annotations

from collections.abc import Iterable

from engine.errors import RequestError

MAX_STRINGS = 128
MAX_LENGTH = 1_000  # characters of one


class StopMatcher:
    """Watches one generation's text for stop strings, wherever token borders fall.

    The text ends where the first stop string to be complete begins (of those complete at the same
    character, the longest). No part of that string is ever emitted: text that may still become a stop
    string is held back. The result does not depend on how the text is cut into pieces.
    """

    def __init__(self, strings: Iterable[str] = (), ids: Iterable[int] = ()) -> None:
        """Raises RequestError for more, or longer, stop strings than can be watched for at each token."""
        self._strings = tuple(dict.fromkeys(string for string in strings if string))
        if len(self._strings) > MAX_STRINGS or max(map(len, self._strings), default=0) > MAX_LENGTH:
            raise RequestError(
                f"A request may have {MAX_STRINGS} stop strings of at most {MAX_LENGTH} characters each.",
                action="Send fewer or shorter ones.",
            )
        self._ids = frozenset(ids)
        self._reach = max(map(len, self._strings), default=0)
        self._held = ""
        self._stopped = False
        self.stopped_by = ""
        """The stop string that was complete, once one is."""

    def is_stop(self, token: int) -> bool:
        """Whether this token ends the generation."""
        return token in self._ids

    def feed(self, piece: str) -> tuple[str, bool]:
        """(text that is safe to emit, whether a stop string is complete); once one is, no more is emitted."""
        if self._stopped:
            return "", True
        text = self._held + piece
        found = self._first_match(text)
        if found is not None:
            cut, self.stopped_by = found
            self._held = ""
            self._stopped = True
            return text[:cut], True
        safe = len(text) - self._possible_start(text)
        self._held = text[safe:]
        return text[:safe], False

    def finish(self) -> str:
        """The text still held, when the generation ended for another reason."""
        rest, self._held = self._held, ""
        return rest

    def _first_match(self, text: str) -> tuple[int, str] | None:
        """Where the first string to be complete begins, and that string."""
        found = [
            (place + len(string), place, string)
            for string in self._strings
            if (place := text.find(string)) >= 0
        ]
        return min(found)[1:] if found else None

    def _possible_start(self, text: str) -> int:
        """Length of the longest end of text that is a proper beginning of a stop string."""
        for length in range(min(self._reach - 1, len(text)), 0, -1):
            tail = text[len(text) - length :]
            if any(len(string) > length and string.startswith(tail) for string in self._strings):
                return length
        return 0
