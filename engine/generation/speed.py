"""How fast this machine prefills and decodes, and the sizes that follow from it."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from engine.backends.base import Backend

# Weight of the newest measurement in the moving averages: about ten steps to follow a change.
NEWEST_WEIGHT = 0.2

# A step with at least this many rows of one prompt measures prefill; smaller ones are bound by reading
# the weights, as decoding is.
PREFILL_ROWS = 16

# A prefill chunk delays a more urgent request by at most about this long.
CHUNK_SECONDS = 0.1
MIN_CHUNK = PREFILL_ROWS
MAX_CHUNK = 512

# Time to the first token that the prompt budget aims at, and the share of a prompt that is not yet in the
# KV cache on a keystroke: the prefix is cached, the text after the cursor and the newest words are not.
PREFILL_GOAL_SECONDS = 0.4
UNCACHED_SHARE = 0.25

# Budgets change only when the speed is clearly on the other side of a border: each change moves where
# prompts are clipped, and so costs one prefill without a cache.
MIN_PROMPT_TOKENS = 256
HYSTERESIS = 1.25

# Prompt length and repeats of the measurement at load.
SELF_TEST_TOKENS = 2 * PREFILL_ROWS
SELF_TEST_DECODES = 3


class Speed:
    """Moving averages of prefill and decode speed, in tokens per second; 0 until first measured."""

    def __init__(self) -> None:
        self.prefill_tps = 0.0
        self.decode_tps = 0.0

    def record(self, rows: int, sequences: int, seconds: float) -> None:
        """Account for one step. Only steps of a single sequence tell prefill and decode apart."""
        if sequences != 1 or seconds <= 0:
            return
        if rows == 1:
            self.decode_tps = _average(self.decode_tps, 1 / seconds)
        elif rows >= PREFILL_ROWS:
            self.prefill_tps = _average(self.prefill_tps, rows / seconds)

    def seconds(self, prefill: int, decode: int) -> float:
        """About how long so many tokens take one request; 0 until both speeds are measured."""
        if self.prefill_tps == 0 or self.decode_tps == 0:
            return 0.0
        return prefill / self.prefill_tps + decode / self.decode_tps

    @property
    def chunk_tokens(self) -> int:
        """Prompt tokens per step."""
        affordable = int(self.prefill_tps * CHUNK_SECONDS) // MIN_CHUNK * MIN_CHUNK
        return min(MAX_CHUNK, max(MIN_CHUNK, affordable))


def _average(old: float, new: float) -> float:
    return new if old == 0 else old + NEWEST_WEIGHT * (new - old)


class PromptBudget:
    """How many prompt tokens a completion may use: 256, 512, 1024, ... or the whole window.

    window: the most prompt tokens that the model's context leaves room for.
    """

    def __init__(self, window: int) -> None:
        self._steps = [window]
        while self._steps[0] > MIN_PROMPT_TOKENS:
            smaller = 1 << ((self._steps[0] - 1).bit_length() - 1)  # the next power of two below
            self._steps.insert(0, max(smaller, MIN_PROMPT_TOKENS))
        self._chosen: int | None = None

    def tokens(self, prefill_tps: float) -> int:
        """The budget at this prefill speed; steady while the speed only wobbles."""
        target = prefill_tps * PREFILL_GOAL_SECONDS / UNCACHED_SHARE
        if self._chosen is None or not self._suits(self._chosen, target):
            self._chosen = max(0, bisect_right(self._steps, target) - 1)
        return self._steps[self._chosen]

    def _suits(self, chosen: int, target: float) -> bool:
        too_slow = chosen > 0 and target < self._steps[chosen] / HYSTERESIS
        too_fast = chosen + 1 < len(self._steps) and target >= self._steps[chosen + 1] * HYSTERESIS
        return not too_slow and not too_fast


def self_test(backend: Backend, speed: Speed, clock: Callable[[], float] = time.perf_counter) -> None:
    """Measure a short prefill and a few decode steps, so that budgets exist before the first request.

    The first forward touches every weight for the first time and is not counted.
    """
    seq = backend.new_sequence()
    try:
        for rows in (1, SELF_TEST_TOKENS, *[1] * SELF_TEST_DECODES):
            begin = clock()
            backend.forward(
                np.full(rows, seq, np.int32),
                np.zeros(rows, np.int32),
                np.array([False] * (rows - 1) + [True]),
            )
            if rows > 1 or speed.prefill_tps:
                speed.record(rows, 1, clock() - begin)
    finally:
        backend.free_sequence(seq)
