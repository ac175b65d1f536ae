"""A remote's answer when the request's time is over; the clock is the event loop's own."""

import asyncio
from contextlib import aclosing

import pytest

from engine.backends.openai.deadline import within
from engine.errors import DeadlineExceeded


class Answer:
    """Pieces, and then nothing for ever."""

    def __init__(self, *pieces):
        self.pieces = pieces
        self.closed = False

    async def __call__(self):
        try:
            for piece in self.pieces:
                yield piece
            await asyncio.Event().wait()
        finally:
            self.closed = True


async def test_an_answer_that_has_begun_ends_with_what_it_has():
    answer = Answer("a", "b")
    assert [piece async for piece in within(answer(), 1e-3, lambda: "cut")] == ["a", "b", "cut"]
    assert answer.closed


async def test_one_that_has_not_is_an_error():
    answer = Answer()
    with pytest.raises(DeadlineExceeded, match=r"within the 0\.001 s"):
        await anext(within(answer(), 1e-3, lambda: "cut"))
    assert answer.closed


@pytest.mark.parametrize("timeout_s", [None, 60.0])
async def test_one_that_ends_in_time_is_as_it_was(timeout_s):
    async def whole():
        yield "a"
        yield "b"

    assert [piece async for piece in within(whole(), timeout_s, lambda: "cut")] == ["a", "b"]


async def test_leaving_early_closes_it():
    answer = Answer("a", "b")
    async with aclosing(within(answer(), 60.0, lambda: "cut")) as pieces:
        assert await anext(pieces) == "a"
    assert answer.closed
