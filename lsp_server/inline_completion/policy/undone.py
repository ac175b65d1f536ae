"""What the user has taken and undone: not to be offered again unasked.

Nothing else tells truly of a suggestion that is not wanted. Typing another text than the one shown is as
often a slip of the finger; what Escape hides is not told; to ask again at the same place is no sign of it.
"""

from __future__ import annotations

from collections import deque

from lsp_server.inline_completion.policy.cursor import Cursor

_CAPACITY = 64


class Undone:
    """The latest suggestions that were taken, known by their whole text and the line above them.

    Their place can only be asked about again when they were undone.
    """

    def __init__(self) -> None:
        self._taken: deque[tuple[str, str, str]] = deque(maxlen=_CAPACITY)

    def remember(self, uri: str, cursor: Cursor, text: str) -> None:
        """A suggestion was taken."""
        self._taken.append(_key(uri, cursor, text))

    def holds(self, uri: str, cursor: Cursor, text: str) -> bool:
        """Whether this one was taken, and so undone."""
        return _key(uri, cursor, text) in self._taken

    def forget(self, uri: str) -> None:
        """Drop a document's suggestions."""
        for key in [key for key in self._taken if key[0] == uri]:
            self._taken.remove(key)


def _key(uri: str, cursor: Cursor, text: str) -> tuple[str, str, str]:
    # Typing along such a suggestion moves text from it into the line, which leaves the sum as it was.
    return uri, cursor.line_above, (cursor.line_prefix + text).rstrip()
