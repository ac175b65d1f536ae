"""Helpers for streams."""

from contextlib import aclosing

import pytest


@pytest.fixture
def gather():
    async def gather(stream):
        async with aclosing(stream):
            return [delta async for delta in stream]

    return gather
