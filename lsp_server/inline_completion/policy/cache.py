"""Suggestions kept, so that typing along one (or accepting a part of it) needs no engine.

An entry answers again while the document is what it was plus the first characters of the entry's own
text: same file, same other files in the prompt, same text before and after. Backspacing over typed
characters comes back to an earlier state of the same entry. Any other change is a miss.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from engine.types import ContextFile
from lsp_server.inline_completion.policy.cover import covered
from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.values import ModeSetting, Question

CAPACITY = 64
# Characters compared on each side; together with the position they tell one state of a file from another.
COMPARED = 2000
# An editor closes at most a bracket and a quote inside it for one key.
_MAX_AUTO_CLOSED = 2
_AUTO_CLOSED = frozenset(")]}\"'`>")


@dataclass(frozen=True)
class Key:
    """What must be equal for an entry to be of use at all."""

    uri: str
    language_id: str
    mode: ModeSetting
    context: tuple[ContextFile, ...]

    @staticmethod
    def of(question: Question) -> Key:
        return Key(question.uri, question.language_id, question.mode, question.context)


@dataclass(frozen=True)
class Entry:
    """A suggestion and the state it was made for: `text` replaces the first `covers` characters of suffix."""

    key: Key
    position: int
    prefix: str
    suffix: str
    text: str
    covers: int


@dataclass(frozen=True)
class Hit:
    """What is left of an entry at the present cursor; typed: how many of its characters are already there."""

    text: str
    covers: int
    typed: int


class SuggestionCache:
    """The latest CAPACITY suggestions over all documents; the least recently used goes first."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._next = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: Key, cursor: Cursor, text: str, covers: int) -> None:
        """Keep a suggestion made at `cursor`."""
        self._entries[self._next] = Entry(
            key, cursor.position, cursor.prefix[-COMPARED:], cursor.suffix[:COMPARED], text, covers
        )
        self._next += 1
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def find(self, key: Key, cursor: Cursor) -> list[Hit]:
        """Every kept suggestion that still fits, without doubles: first made, first named."""
        hits: dict[str, Hit] = {}
        for number, entry in self._matching(key):
            hit = _rest(entry, cursor)
            if hit is not None and hit.text not in hits:
                hits[hit.text] = hit
                self._entries.move_to_end(number)
        return list(hits.values())

    def forget(self, uri: str) -> None:
        """Drop a document's entries."""
        for number in [number for number, entry in self._entries.items() if entry.key.uri == uri]:
            del self._entries[number]

    def _matching(self, key: Key) -> Iterator[tuple[int, Entry]]:
        yield from sorted((number, entry) for number, entry in self._entries.items() if entry.key == key)


def _rest(entry: Entry, cursor: Cursor) -> Hit | None:
    typed = cursor.position - entry.position
    if not 0 <= typed < len(entry.text):
        return None
    expected = entry.prefix + entry.text[:typed]
    compared = min(len(expected), len(cursor.prefix))
    if cursor.prefix[len(cursor.prefix) - compared :] != expected[len(expected) - compared :]:
        return None
    shift = _suffix_shift(entry, cursor.suffix)
    rest = entry.text[typed:]
    if shift is None or not rest.strip():
        return None
    covers = entry.covers + shift
    if shift > 0 and covered(rest, cursor) != covers:
        return None
    return Hit(rest, covers, typed)


def _suffix_shift(entry: Entry, suffix: str) -> int | None:
    """0: unchanged; n: the editor closed n brackets at its head; -n: n of them were typed over."""
    if suffix[:COMPARED] == entry.suffix:
        return 0
    for count in range(1, _MAX_AUTO_CLOSED + 1):
        if set(suffix[:count]) <= _AUTO_CLOSED and suffix[count:COMPARED] == entry.suffix[: COMPARED - count]:
            return count
        if count <= entry.covers and suffix[: COMPARED - count] == entry.suffix[count:]:
            return -count
    return None
