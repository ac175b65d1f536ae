"""From the hidden states of a text's tokens to its vector."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.backends.pooling import Pooling
from engine.errors import RequestError


class PooledText:
    """Pools rows as they come, in order; the bits do not depend on how they were cut into calls."""

    def __init__(self, pooling: Pooling) -> None:
        self._pooling = pooling
        self._state: NDArray[np.float64] | None = None

    def begin(self) -> None:
        """Forget every row: the text is computed anew."""
        self._state = None

    def add(self, rows: NDArray[np.float32]) -> None:
        """Take the next rows, shape (n, embedding)."""
        if self._pooling is Pooling.LAST:
            self._state = rows[-1].astype(np.float64)
            return
        for row in rows:
            if self._state is None:
                self._state = row.astype(np.float64)
            elif self._pooling is Pooling.MEAN:
                self._state += row  # one by one: a sum of sums would depend on the cuts

    def vector(self) -> NDArray[np.float32]:
        """The text's vector; its length is 1, so the sum and the mean are the same."""
        assert self._state is not None  # noqa: S101 - a text has at least one token
        return normalised(self._state)


def normalised(vector: NDArray[np.floating]) -> NDArray[np.float32]:
    """The vector divided by its Euclidean length. Raises RequestError where that is no positive number."""
    length = math.sqrt(float(np.square(vector, dtype=np.float64).sum()))
    if not 0 < length < math.inf:  # false for what is not a number, too
        raise RequestError(
            "The model gave no numbers for this text.",
            meaning="Its file is damaged, or it was not made for this.",
            action="Verify the model with `hearth models verify`, or choose another one.",
        )
    return np.asarray(vector / length, np.float32)
