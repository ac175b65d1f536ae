"""What the user has just turned down, or taken and undone: not to be offered again unasked."""

from __future__ import annotations

from collections import deque

from lsp_server.inline_completion.policy.cursor import Cursor

_CAPACITY = 64


class Declined:
    """The latest suggestions that were settled, known by their whole text and the line above them.

    An accepted one belongs here too: its place can only be asked about again when it was undone.
    """

    def __init__(self) -> None:
        self._settled: deque[tuple[str, str, str]] = deque(maxlen=_CAPACITY)

    def remember(self, uri: str, cursor: Cursor, text: str) -> None:
        self._settled.append(_key(uri, cursor, text))

    def holds(self, uri: str, cursor: Cursor, text: str) -> bool:
        return _key(uri, cursor, text) in self._settled

    def forget(self, uri: str) -> None:
        for key in [key for key in self._settled if key[0] == uri]:
            self._settled.remove(key)


def _key(uri: str, cursor: Cursor, text: str) -> tuple[str, str, str]:
    # Typing along a declined suggestion moves text from it into the line, which leaves the sum as it was.
    return uri, cursor.line_above, (cursor.line_prefix + text).rstrip()
