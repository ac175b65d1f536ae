"""Tokens and time of one streamed answer."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.backends.openai.chunks import UsageChunk
from engine.types import Timing


class Meter:
    """Counts one answer.

    Tokens are what the server tells; while it has told nothing, each piece counts as one, and the last piece
    makes up the difference.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self._first: float | None = None
        self._prompt = self._cached = 0
        self._generated: int | None = None
        self._counted = 0

    def saw(self, usage: UsageChunk | None) -> None:
        """Take in what a piece tells."""
        if usage is None:
            return
        self._prompt = max(0, usage.prompt_tokens)
        if usage.prompt_tokens_details is not None:
            self._cached = max(0, usage.prompt_tokens_details.cached_tokens or 0)
        if usage.completion_tokens is not None:
            self._generated = max(0, usage.completion_tokens)

    def piece(self, at_least: int) -> tuple[int, Timing | None]:
        """Tokens of a piece that goes out, and the timing where it is the first.

        at_least: what to count while the server has told nothing.
        """
        first = self._first is None
        if self._first is None:
            self._first = self._clock()
        tokens = at_least if self._generated is None else max(0, self._generated - self._counted)
        self._counted += tokens
        return tokens, self.timing() if first else None

    def rest(self) -> int:
        """Tokens that no piece has counted."""
        return max(0, (self._generated or 0) - self._counted)

    def timing(self) -> Timing:
        """As known by now. The queue is the remote's own, and part of the prefill here."""
        now = self._clock()
        first = self._first if self._first is not None else now
        generated = self._generated if self._generated is not None else self._counted
        return Timing(
            prompt_tokens=self._prompt,
            cached_tokens=self._cached,
            queue_s=0.0,
            prefill_s=first - self._start,
            decode_s=now - first,
            generated_tokens=generated,
        )
