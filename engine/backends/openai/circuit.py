"""Whether a server is worth asking: after failures in a row it is left alone until a probe has answered.

Source: the circuit breaker of M. Nygard, "Release It!" (2007). Without it every request, and so every key
that is typed, would wait for a connection that cannot come.
"""

from __future__ import annotations

import random
from enum import StrEnum

from engine.errors import HearthError

FAILURES_TO_OPEN = 3


class Health(StrEnum):
    """What is known of a server."""

    UNKNOWN = "unknown"  # not asked yet
    UP = "up"
    REFUSED = "refused"  # it answers, and does not let us in
    DOWN = "down"


class Circuit:
    """Counts one server's failures; opens after several in a row, and is closed by any answer."""

    def __init__(self) -> None:
        self._failures = 0
        self.health = Health.UNKNOWN
        self.reason = ""

    @property
    def open(self) -> bool:
        """Whether the server is not to be asked."""
        return self.health is Health.DOWN

    def answered(self) -> None:
        self._failures = 0
        self.health, self.reason = Health.UP, ""

    def refused(self, error: HearthError) -> None:
        """It answered, and every request will be refused until the settings are mended."""
        self._failures = 0
        self.health, self.reason = Health.REFUSED, error.what

    def failed(self, error: HearthError, *, for_sure: bool = False) -> bool:
        """Count a failure; whether it opened the circuit.

        for_sure: one is enough: a probe failed.
        """
        self._failures += 1
        self.reason = error.what
        if self.open or (self._failures < FAILURES_TO_OPEN and not for_sure):
            return False
        self.health = Health.DOWN
        return True


def backoff(attempt: int, *, first: float, longest: float) -> float:
    """Seconds to wait before attempt 1, 2, …: doubling, with "equal jitter", so that many clients spread out.

    Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """
    whole = min(longest, first * 2.0 ** min(attempt - 1, 30))
    return whole / 2 + random.uniform(0, whole / 2)  # noqa: S311 - nothing secret hangs on it
