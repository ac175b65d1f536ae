"""The control routes' bodies: short and in time, for nothing else guards these routes."""

import asyncio

import pytest

from engine.service.control import LONGEST_WISH, Control
from engine.service.protocol import LOAD


class Router:
    def __init__(self):
        self.loaded = []

    async def load(self, model, threads):
        self.loaded.append((model, threads))


async def post(router, pieces, body_seconds=30.0):
    """The answer's status and headers, and how many messages were taken; a piece may be an ASGI message."""
    sent, taken = [], 0

    async def receive():
        nonlocal taken
        if taken == len(pieces):
            await asyncio.Event().wait()
        taken += 1
        piece = pieces[taken - 1]
        return (
            piece if isinstance(piece, dict) else {"type": "http.request", "body": piece, "more_body": True}
        )

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": LOAD, "query_string": b"", "headers": []}
    control = Control(None, router, None, lambda: None, body_seconds=body_seconds)
    await control(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), taken


LAST = {"type": "http.request", "body": b"", "more_body": False}


async def test_a_wish_in_pieces():
    router = Router()
    status, _, _ = await post(router, [b'{"model": "m",', b' "threads": 2}', LAST])
    assert status == 200
    assert router.loaded == [("m", 2)]


async def test_a_long_body_is_not_read():
    router = Router()
    status, headers, taken = await post(router, [b"x" * LONGEST_WISH] * 1600)
    assert (status, taken) == (413, 2)
    assert headers[b"connection"] == b"close"
    assert not router.loaded


async def test_a_body_that_does_not_come():
    router = Router()
    status, headers, _ = await post(router, [b"{"], body_seconds=0.0)
    assert status == 408
    assert headers[b"connection"] == b"close"
    assert not router.loaded


@pytest.mark.parametrize("pieces", [[], [b'{"model": "m"}']])
async def test_a_client_that_leaves_is_no_fault(pieces):
    router = Router()
    await post(router, [*pieces, {"type": "http.disconnect"}])
    assert not router.loaded
