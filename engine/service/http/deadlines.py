"""How long a request may take: what it asks for itself, within what the service allows."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable
from contextvars import ContextVar
from dataclasses import replace
from typing import TypeVar

from starlette.datastructures import Headers

from engine.errors import DeadlineExceeded
from engine.service.http.problems import BadField
from engine.types import ChatRequest, CompletionRequest, InfillRequest

HEADER = "X-Request-Timeout"
LONGEST_SECONDS = 86_400.0

Request = TypeVar("Request", InfillRequest, CompletionRequest, ChatRequest)
Result = TypeVar("Result")

# Of the HTTP request that this task answers, as a reading of time.monotonic. The context is the task's, so no
# route can forget to hand it on.
_ends: ContextVar[float] = ContextVar("ends", default=math.inf)


def begin(headers: Headers, longest: float | None) -> None:
    """Set the deadline of the HTTP request that this task answers, and of the tasks that it starts.

    longest: seconds that the service allows; None for no limit. Raises BadField.
    """
    asked = headers.get(HEADER)
    limits = (longest or math.inf, _seconds(asked) if asked is not None else math.inf)
    _ends.set(time.monotonic() + min(limits))


def within(request: Request) -> Request:
    """The engine's request, with what is left of the HTTP request's time. Raises DeadlineExceeded."""
    left = _ends.get() - time.monotonic()
    if left <= 0:
        raise DeadlineExceeded("The request's time was over before it came to the engine.")
    if left == math.inf:
        return request
    return replace(request, timeout_s=left if request.timeout_s is None else min(left, request.timeout_s))


async def limited(work: Awaitable[Result]) -> Result:
    """What the work gives; cancelled when the HTTP request's time is over. Raises DeadlineExceeded."""
    left = _ends.get() - time.monotonic()
    try:
        async with asyncio.timeout(None if left == math.inf else left):
            return await work
    except TimeoutError:
        raise DeadlineExceeded(
            "The request's time was over before all of it was done.",
            action="Try again later, ask for less at once or give it more time.",
        ) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_SECONDS:
        raise BadField(HEADER, f"It must be a number of seconds above 0, and at most {LONGEST_SECONDS:.0f}.")
    return seconds
