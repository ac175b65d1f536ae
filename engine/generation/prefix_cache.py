"""Warm KV: ended requests leave their sequence here, and the next request that begins alike continues it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from engine.backends.base import Backend
from engine.generation.disk_tier import DiskTier, Pages, Restore
from engine.generation.prefix_tree import Node, PrefixTree, Tokens, common_prefix

# Where there is no disk tier to say: the tokens that one eviction takes from a leaf.
EVICTED_TOKENS = 256


@dataclass(frozen=True, eq=False, slots=True)
class Held:
    """A sequence of a live request, and the tokens that it holds."""

    kv: int
    tokens: Tokens


@dataclass(slots=True)
class CacheCounts:
    """Since the start.

    lookups, hits: requests that looked for their prefix, and those that found one in memory.
    memory_tokens, disk_tokens: prompt tokens that were not computed because they were found there.
    evictions: leaves shortened or freed for want of pages.
    """

    lookups: int = 0
    hits: int = 0
    memory_tokens: int = 0
    disk_tokens: int = 0
    evictions: int = 0


class PrefixCache:
    """Sequences of ended requests in a radix tree, and behind them the disk.

    They take whatever the page pool has left: when the backend runs out of pages, `evict_one` takes a piece
    from the end of the least recently used leaf, so no size needs to be guessed, and what live conversations
    stand on goes last.
    """

    def __init__(self, backend: Backend, disk: DiskTier | None = None) -> None:
        self._backend = backend
        self._pages = backend.kv_pages
        self._disk = disk if self._pages is not None else None
        self._chunk = disk.chunk_tokens if disk is not None else EVICTED_TOKENS
        self._tree = PrefixTree()
        # The leaf that a session's next request replaces, once for requests that computed their whole prompt
        # and once for those that did not.
        self._latest: dict[tuple[str, bool], Node] = {}
        self.counts = CacheCounts()
        self._lost = 0  # by the disk, when the leaves were last offered to it from their start

    def __len__(self) -> int:
        return len(self._tree)

    def acquire(self, prompt: Tokens, running: Iterable[Held]) -> tuple[int, int]:
        """A new backend sequence that begins with the longest prefix in memory, and that prefix's length.

        running: sequences of live requests, which can be forked like the idle ones.
        Raises MemoryError when the backend has no sequence left.
        """
        live = list(running)
        self.counts.lookups += 1
        while True:
            leaf, length = self._tree.match(prompt)
            source = leaf.kv
            for held in live:
                shared = common_prefix(held.tokens, prompt)
                if shared > length:
                    source, length = held.kv, shared
            try:
                if length == 0:
                    return self._backend.new_sequence(), 0
                fork = self._backend.fork_sequence(source, length)
            except MemoryError:
                # It took a page to copy, or there are too many sequences.
                if not self.evict_one():
                    raise
                continue
            self.counts.hits += 1
            self.counts.memory_tokens += length
            return fork, length

    def keep(self, kv: int, tokens: Tokens, session: str = "", *, complete: bool = True) -> None:
        """Take over a backend sequence that holds `tokens`.

        What the session's requests left before is replaced by one that is complete, which means that it
        computed its whole prompt; one that is not only replaces others of its kind, lest it destroy more than
        it has.
        """
        if len(tokens) == 0:
            self._backend.free_sequence(kv)
            return
        leaf, unused = self._tree.insert(tokens, kv)
        if unused is not None:
            self._backend.free_sequence(unused)
        if unused != kv and session:
            self._replace(session, complete, leaf)
        elif leaf.session != session:
            self._own(leaf, "")  # others use it as well

    def evict_one(self) -> bool:
        """Free the end of the least recently used leaf; False when there is none.

        It may free no page, where live requests hold the same ones. A whole chunk goes to the disk first.
        """
        leaf = self._tree.oldest
        if leaf is None:
            return False
        self.counts.evictions += 1
        index = (leaf.end - 1) // self._chunk
        border = index * self._chunk
        if self._disk is not None and leaf.end == border + self._chunk:
            self._save(self._disk, leaf, index, self._disk.keys(leaf.tokens))
        if border > leaf.start:
            self._tree.shorten(leaf, border)
            leaf.saved = min(leaf.saved, index)  # what may come in its place is new
            self._backend.truncate(leaf.kv, border)
        else:
            self._drop(leaf)
        return True

    def restore(self, prompt: Tokens, kv: int, length: int) -> tuple[Restore, int] | None:
        """Start to read what the disk knows of the prompt beyond `length`, which `kv` holds.

        The sequence is cut back to the border where the disk goes on; that is its new length. None when the
        disk knows no more.
        """
        if self._disk is None or self._pages is None:
            return None
        keys = self._disk.keys(prompt)
        known = self._disk.known(keys)
        # Less than a page is computed sooner than read.
        if known * self._chunk < length + self._pages.page_tokens:
            return None
        self._disk.touch(keys[:known])
        first = length // self._chunk
        border = first * self._chunk
        self._backend.truncate(kv, border)
        self.counts.memory_tokens -= length - border
        return self._disk.restore(keys[first:known]), border

    def append(self, kv: int, pages: Pages) -> int:
        """Continue a sequence with a chunk from the disk; how many tokens that are.

        Raises MemoryError when live requests leave no room for it.
        """
        assert self._pages is not None  # noqa: S101 - without pages there is no disk tier
        while True:
            try:
                self._pages.append_pages(kv, pages)
            except MemoryError:
                if not self.evict_one():
                    raise
                continue
            self.counts.disk_tokens += self._chunk
            return self._chunk

    @property
    def unsaved(self) -> bool:
        """Whether `save_one` has something to do."""
        disk = self._disk
        return disk is not None and disk.writable and disk.has_room and self._has_unsaved(disk)

    def save_one(self) -> None:
        """Have one more chunk written to the disk; for moments in which no request waits."""
        disk = self._disk
        if disk is None or not self.unsaved:
            return
        leaf = next(leaf for leaf in reversed(self._tree.leaves) if self._is_unsaved(leaf))
        keys = disk.keys(leaf.tokens)
        # Each chunk is offered once, for a disk that is too small forgets some at once.
        while self._is_unsaved(leaf):
            index = leaf.saved
            leaf.saved += 1
            if not disk.has(keys[index]):
                self._save(disk, leaf, index, keys)
                return
        disk.touch(keys)

    def save_all(self, seconds: float) -> None:
        """Have everything written and close the disk tier, within so many seconds."""
        disk = self._disk
        if disk is None:
            return
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and disk.writable and self._has_unsaved(disk):
            if disk.has_room:
                self.save_one()
            else:
                disk.wait_for_room(left)
        disk.close(max(0.0, until - time.monotonic()))

    def clear(self) -> None:
        """Free every sequence."""
        for leaf in self._tree.leaves:
            self._drop(leaf)

    def _is_unsaved(self, leaf: Node) -> bool:
        return leaf.saved < leaf.end // self._chunk

    def _has_unsaved(self, disk: DiskTier) -> bool:
        if disk.lost != self._lost:  # they are offered once more, for what stands on them is useless alone
            self._lost = disk.lost
            for leaf in self._tree.leaves:
                leaf.saved = 0
        return any(self._is_unsaved(leaf) for leaf in self._tree.leaves)

    def _save(self, disk: DiskTier, leaf: Node, index: int, keys: list[bytes]) -> None:
        pages = self._pages
        if pages is None or index >= len(keys):  # the disk tier may not be open yet
            return
        count = self._chunk // pages.page_tokens
        disk.save(keys, index, lambda: pages.read_pages(leaf.kv, index * count, count))

    def _replace(self, session: str, complete: bool, leaf: Node) -> None:
        for key in {(session, complete), (session, False)}:
            former = self._latest.get(key)
            if former is not None and former is not leaf:
                self._drop(former)
        self._own(leaf, session)
        self._latest[session, complete] = leaf

    def _own(self, leaf: Node, session: str) -> None:
        """Make a leaf the session's alone; its former owner has none then."""
        for complete in (True, False):
            if self._latest.get((leaf.session, complete)) is leaf:
                del self._latest[leaf.session, complete]
        leaf.session = session

    def _drop(self, leaf: Node) -> None:
        self._own(leaf, "")
        self._tree.remove(leaf)
        self._backend.free_sequence(leaf.kv)


def token_array(tokens: Iterable[int]) -> Tokens:
    """Token ids as the tree takes them."""
    return np.fromiter(tokens, np.int32)
