"""Which requests run in the next step: the most urgent class, oldest first, as far as the KV pool allows."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence as Seq

from engine.generation.sequence import Sequence
from engine.types import Priority

MAX_REQUESTS = 64

# Added to each request's reservation, since a sequence's last KV page is seldom full.
PAGE_SLACK = 64

# Tokens that a request may still grow by when it is let in. Most end long before their limit, so reserving
# all of it would leave the pool half empty; those that do not can be stopped and taken up again.
HEADROOM = 256

# A request of a less urgent class runs beside the more urgent ones when it has not for so long.
STARVED_SECONDS = 0.5


class Scheduler:
    """All live requests in order of priority, then age.

    Sequences advance one step at a time, so a more urgent arrival pre-empts simply by being first at the
    next step; the pre-empted request keeps its KV and goes on where it was.

    kv_tokens: capacity of the KV pool.
    max_requests: the most of a class and all more urgent ones.
    """

    def __init__(self, kv_tokens: int, max_requests: int = MAX_REQUESTS) -> None:
        self._kv_tokens = kv_tokens
        self._max_requests = max_requests
        self._requests: list[Sequence] = []

    @property
    def requests(self) -> Seq[Sequence]:
        """Every live request, the most urgent first."""
        return self._requests

    def full(self, priority: Priority) -> bool:
        """Whether no more requests of that class are taken: less urgent ones do not count against it."""
        return sum(request.priority <= priority for request in self._requests) >= self._max_requests

    def add(self, sequence: Sequence) -> None:
        """Queue a request."""
        # insort keeps equal keys in order of arrival.
        insort(self._requests, sequence, key=lambda request: request.priority)

    def remove(self, sequence: Sequence) -> None:
        self._requests.remove(sequence)

    def ready(self, now: float) -> list[Sequence]:
        """The requests that may run in the next step, the most urgent first.

        They are the most urgent class, and those of the others that starve. Only as many as the pool holds
        together with some growth; the first always may, for no request is longer than the pool. Without this,
        late requests would take turns evicting each other.
        """
        chosen: list[Sequence] = []
        room = self._kv_tokens
        for sequence in self._requests:
            if sequence.priority != self._requests[0].priority and not _starves(sequence, now):
                continue
            room -= _reservation(sequence)
            if chosen and room < 0:
                break
            chosen.append(sequence)
        return chosen

    def victim(self, ready: Seq[Sequence]) -> Sequence | None:
        """The least urgent request that holds KV pages; one of the ready ones only when there is no other."""
        holders = [request for request in reversed(self._requests) if request.kv is not None]
        return next((request for request in holders if request not in ready), holders[0] if holders else None)


def _starves(sequence: Sequence, now: float) -> bool:
    return now - max(sequence.arrived, sequence.last_run) >= STARVED_SECONDS


def _reservation(sequence: Sequence) -> int:
    longest = len(sequence.prompt) + sequence.max_tokens
    return min(longest, len(sequence.tokens) + HEADROOM) + PAGE_SLACK
