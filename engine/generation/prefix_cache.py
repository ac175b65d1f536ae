"""Warm KV: ended requests leave their sequence here, and the next request that begins alike continues it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.backends.base import Backend

MAX_KEPT = 16


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """A sequence of the backend and the tokens whose keys and values it holds."""

    kv: int
    tokens: NDArray[np.int32]
    session: str


def common_prefix(a: NDArray[np.int32], b: NDArray[np.int32]) -> int:
    """How many leading tokens a and b share."""
    n = min(len(a), len(b))
    different = np.flatnonzero(a[:n] != b[:n])
    return int(different[0]) if len(different) else n


class PrefixCache:
    """Idle sequences of recent sessions, the least recently used first; at most one per named session.

    They take whatever the page pool has left: when the backend runs out of pages, `evict_one` frees the
    oldest, so no size needs to be guessed. Forks share whole pages, so near-duplicates cost little.
    """

    def __init__(self, backend: Backend, max_kept: int = MAX_KEPT) -> None:
        self._backend = backend
        self._max_kept = max_kept
        self._kept: list[Kept] = []

    def __len__(self) -> int:
        return len(self._kept)

    def acquire(self, prompt: Sequence[int], running: Iterable[Kept]) -> tuple[int, int]:
        """A new backend sequence that begins with the longest known prefix of the prompt, and its length.

        running: sequences of live requests, which can be forked like the idle ones.
        """
        tokens = np.asarray(prompt, np.int32)
        live = list(running)
        while True:
            best = max(
                [*self._kept, *live], key=lambda kept: common_prefix(kept.tokens, tokens), default=None
            )
            length = common_prefix(best.tokens, tokens) if best is not None else 0
            if best is None or length == 0:
                return self._backend.new_sequence(), 0
            if best in self._kept:
                self._touch(best)
            try:
                return self._backend.fork_sequence(best.kv, length), length
            except MemoryError:
                # A fork copies at most one page. Once no idle sequence is left to evict, prefill afresh.
                if not self.evict_one():
                    return self._backend.new_sequence(), 0

    def keep(self, kv: int, tokens: Sequence[int], session: str) -> None:
        """Take over a backend sequence that holds `tokens`; it replaces its session's former one.

        A request cancelled early has less than that to offer, and then the former one stays.
        """
        new = Kept(kv, np.asarray(tokens, np.int32), session)
        former = next((kept for kept in self._kept if session and kept.session == session), None)
        if former is not None and common_prefix(former.tokens, new.tokens) == len(new.tokens):
            self._touch(former)
            self._backend.free_sequence(kv)
            return
        self._kept.append(new)
        if former is not None:
            self._drop(former)
        elif len(self._kept) > self._max_kept:
            self.evict_one()

    def evict_one(self) -> bool:
        """Free the least recently used sequence; False when none is left."""
        if not self._kept:
            return False
        self._drop(self._kept[0])
        return True

    def _touch(self, kept: Kept) -> None:
        self._kept.remove(kept)
        self._kept.append(kept)

    def _drop(self, kept: Kept) -> None:
        self._kept.remove(kept)
        self._backend.free_sequence(kept.kv)
