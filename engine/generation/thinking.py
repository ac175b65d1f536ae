"""Reasoning that ends in time: before its budget is used up, and while there is room for the reply."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

# Of the tokens that a message may have, a quarter is kept for the reply, and never more than this (the reply
# budget that Qwen3.6's model card suggests).
REPLY_SHARE = 4
MOST_REPLY_TOKENS = 4096


class ThinkingBudget:
    """Decides when the reasoning of one message is closed.

    close: the tokens that close it. most: the most reasoning tokens, or None. room: the message's tokens.
    """

    def __init__(self, close: Sequence[int], most: int | None, room: int) -> None:
        self._close = tuple(close)
        reply = min(MOST_REPLY_TOKENS, room // REPLY_SHARE)
        fits = max(0, room - reply - len(close))
        self._limit = fits if most is None else max(0, min(most, fits))
        self._count = 0
        self._forced: deque[int] = deque()

    def next(self, reasoning: bool) -> int | None:
        """The token that must come next; None when the model is free.

        reasoning: whether what comes next would be reasoning. To be asked once for each token.
        """
        if not self._forced and reasoning:
            if self._count >= self._limit:
                return self.close()
            self._count += 1
        return self._forced.popleft() if self._forced else None

    def close(self) -> int:
        """Close the reasoning now; the first token of that."""
        self._forced.extend(self._close)
        return self._forced.popleft()
