"""Which requests run in the next step: the most urgent class, oldest first, as far as the KV pool allows."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence as Seq

from engine.errors import RequestError
from engine.generation.sequence import Sequence

MAX_REQUESTS = 64

# Added to each request's reservation, since a sequence's last KV page is seldom full.
PAGE_SLACK = 64


class Scheduler:
    """All live requests in order of priority, then age.

    Sequences advance one step at a time, so a more urgent arrival pre-empts simply by being first at the
    next step; the pre-empted request keeps its KV and goes on where it was.

    kv_tokens: capacity of the KV pool, which requests reserve for their full length.
    """

    def __init__(self, kv_tokens: int, max_requests: int = MAX_REQUESTS) -> None:
        self._kv_tokens = kv_tokens
        self._max_requests = max_requests
        self._requests: list[Sequence] = []

    @property
    def requests(self) -> Seq[Sequence]:
        """Every live request, the most urgent first."""
        return self._requests

    def add(self, sequence: Sequence) -> None:
        """Queue a request. Raises RequestError when the queue is full."""
        if len(self._requests) >= self._max_requests:
            raise RequestError(
                f"The engine already has {len(self._requests)} requests.",
                meaning="This one was not started.",
                action="Try again when some of them have ended.",
            )
        # insort keeps equal keys in order of arrival.
        insort(self._requests, sequence, key=lambda request: request.priority)

    def remove(self, sequence: Sequence) -> None:
        self._requests.remove(sequence)

    def ready(self) -> list[Sequence]:
        """The requests that may run in the next step, all of one priority.

        Only as many as could all grow to their full length; the first always may, for no request is
        longer than the pool. Without this, late requests would take turns evicting each other.
        """
        chosen: list[Sequence] = []
        room = self._kv_tokens
        for sequence in self._requests:
            room -= len(sequence.prompt) + sequence.max_tokens + PAGE_SLACK
            if chosen and (room < 0 or sequence.priority != chosen[0].priority):
                break
            chosen.append(sequence)
        return chosen

    def victim(self) -> Sequence | None:
        """The least urgent request that holds KV pages."""
        return next((request for request in reversed(self._requests) if request.kv is not None), None)
