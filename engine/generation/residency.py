"""How requests come by a KV sequence, and what becomes of it: from tree or disk, and back again."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from contextlib import suppress

from engine.backends.base import Backend
from engine.generation.prefix_cache import Held, PrefixCache, token_array
from engine.generation.prefix_tree import Tokens, common_prefix
from engine.generation.sequence import Sequence

# A prefix that has not come from the disk by then is computed.
RESTORE_SECONDS = 2.0


class Residency:
    """Gives requests their sequences of the backend and takes them back. Used on the engine thread."""

    def __init__(self, backend: Backend, cache: PrefixCache) -> None:
        self._backend = backend
        self._cache = cache

    def start(self, sequence: Sequence, requests: Iterable[Sequence], now: float) -> bool:
        """Give the request a sequence with as much of its tokens as is known; False when there is none left.

        The last token is always computed, since the next one is drawn from its logits. What the disk knows
        beyond that arrives by `advance`.
        """
        if sequence.pooled is not None:
            sequence.pooled.begin()
            with suppress(MemoryError):
                sequence.kv = self._backend.new_sequence()
        else:
            self._acquire(sequence, requests)
        if sequence.kv is None:
            return False
        if sequence.pooled is None:
            restore = self._cache.restore(_known_tokens(sequence), sequence.kv, sequence.computed)
            if restore is not None:
                sequence.restore, sequence.computed = restore
                sequence.restoring_since = now
        if sequence.started == 0:
            sequence.started = now
            sequence.cached = sequence.computed
        return True

    def advance(self, requests: Seq[Sequence], now: float) -> None:
        """Take in what has come from the disk."""
        for sequence in requests:
            restore = sequence.restore
            if restore is None or sequence.kv is None:
                continue
            while (pages := restore.take()) is not None:
                try:
                    sequence.computed += self._cache.append(sequence.kv, pages)
                except MemoryError:
                    restore.cancel()
                    break
            late = now - sequence.restoring_since >= RESTORE_SECONDS
            if restore.ended or restore.cancelled or late:
                self._end_restore(sequence, requests)

    def keep(self, sequence: Sequence) -> None:
        """Leave the request's sequence to the next one that begins alike; a pooled one is freed."""
        if sequence.pooled is not None:
            self.free(sequence)
            return
        kv, held = sequence.kv, token_array(sequence.tokens[: sequence.computed])
        if kv is not None:
            _forget(sequence)
            self._cache.keep(kv, held, sequence.session, complete=len(held) >= len(sequence.prompt))

    def free(self, sequence: Sequence) -> None:
        """Free the request's sequence: nobody may continue it."""
        if sequence.kv is not None:
            self._backend.free_sequence(sequence.kv)
            _forget(sequence)

    def must_wait(self, sequence: Sequence, others: Iterable[Sequence]) -> bool:
        """Whether another request is about to compute more of this one's prompt than it has yet.

        Then it is better to fork that one a little later than to compute the same beside it.
        """
        if sequence.pooled is not None:
            return False
        prompt = sequence.prompt_ids[:-1]
        return any(
            other.kv is not None
            and other.pooled is None
            and other.priority == sequence.priority
            and other.computed < len(other.prompt)
            and common_prefix(other.prompt_ids, prompt) > other.computed
            for other in others
            if other is not sequence
        )

    def _acquire(self, sequence: Sequence, requests: Iterable[Sequence]) -> None:
        """Leaves the request without a sequence when the backend has none left."""
        running = [
            Held(other.kv, other.prompt_ids[: other.computed]) for other in requests if other.kv is not None
        ]
        with suppress(MemoryError):
            sequence.kv, sequence.computed = self._cache.acquire(_known_tokens(sequence), running)

    def _end_restore(self, sequence: Sequence, requests: Iterable[Sequence]) -> None:
        """Go on with what came; where something is missing, memory may know more."""
        restore, kv = sequence.restore, sequence.kv
        assert restore is not None  # noqa: S101 - see the caller
        assert kv is not None  # noqa: S101 - see the caller
        restore.cancel()
        sequence.restore = None
        if not restore.complete:
            self._cache.keep(kv, token_array(sequence.tokens[: sequence.computed]))
            sequence.kv, sequence.computed = None, 0
            self._acquire(sequence, requests)
        if sequence.turn == 0:  # it has not run yet, so nothing of that is its own work
            sequence.cached = sequence.computed


def _forget(sequence: Sequence) -> None:
    if sequence.restore is not None:
        sequence.restore.cancel()
    sequence.kv, sequence.computed, sequence.restore = None, 0, None


def _known_tokens(sequence: Sequence) -> Tokens:
    """The tokens whose keys and values may come from elsewhere: all but the last."""
    return sequence.prompt_ids[:-1] if sequence.generated == 0 else token_array(sequence.tokens[:-1])
