"""The end of a remote's answer when the request's time is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeVar

from engine.errors import DeadlineExceeded

Delta = TypeVar("Delta")


async def within(
    deltas: AsyncGenerator[Delta, None], timeout_s: float | None, last: Callable[[], Delta]
) -> AsyncGenerator[Delta, None]:
    """The pieces that come in time, counted from here; None for no limit.

    last: makes the piece that ends an answer which is cut off. Raises DeadlineExceeded when none has begun.
    """
    ends = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
    began = False
    async with aclosing(deltas):
        while True:
            try:
                async with asyncio.timeout_at(ends):
                    delta = await anext(deltas)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if began:
                    yield last()
                    return
                raise DeadlineExceeded(
                    f"The remote did not begin to answer within the {timeout_s:.3g} s that the request had.",
                    action="Give it more time.",
                ) from None
            began = True
            yield delta
