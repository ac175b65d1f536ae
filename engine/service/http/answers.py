"""Answers that come piece by piece, and the end of a request whose client has gone."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass

from starlette.types import Receive, Send

from engine.errors import EngineUnavailable, HearthError
from engine.service.http.problems import Problem, internal_problem, problem_of

log = logging.getLogger(__name__)

EVENT_STREAM = "text/event-stream"
NDJSON = "application/x-ndjson"
DONE = b"data: [DONE]\n\n"

STALLED_SECONDS = 60.0
"""A client that takes nothing of its stream for so long counts as gone: while its request runs, its model
cannot be exchanged or let go."""


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that is sent while it is made.

    pieces: each is sent at once. What should be told by the status fails before the first one.
    failed: the last piece of a stream that fails later.
    """

    pieces: AsyncGenerator[bytes, None]
    media_type: str
    failed: Callable[[Problem], bytes]


def event(data: object, name: str = "") -> bytes:
    """A server-sent event. JSON escapes line ends, so the data is one line."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n".encode() if name else f"data: {text}\n\n".encode()


async def send_stream(stream: Stream, send: Send) -> None:
    """Send a stream. Raises what it fails with before its first piece."""
    async with aclosing(stream.pieces) as pieces:
        first = await anext(pieces, None)
        if first is None:
            raise ended_early()
        headers = [(b"content-type", stream.media_type.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _send_piece(send, first)
        try:
            async for piece in pieces:
                await _send_piece(send, piece)
        except HearthError as error:
            await _send_piece(send, stream.failed(problem_of(error)))
        except Exception as error:  # noqa: BLE001 - the client must hear of the end, whatever it is
            log.error(
                "%s in a stream\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__))
            )
            await _send_piece(send, stream.failed(internal_problem(error)))
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_piece(send: Send, piece: bytes) -> None:
    """Raises CancelledError, as when the client has gone, when it takes nothing any more."""
    try:
        async with asyncio.timeout(STALLED_SECONDS):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    except TimeoutError:
        log.info("a client took nothing of its answer for %.0f s", STALLED_SECONDS)
        raise asyncio.CancelledError from None


async def while_connected(receive: Receive, work: Coroutine[None, None, None]) -> None:
    """Run the work; when the client goes first, cancel it and wait for its end.

    Work that cancels itself, for a client that has stalled, ends the same way. The cancellation reaches the
    engine's generators, which then let go of their requests.
    """
    working = asyncio.create_task(work)
    watching = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watching.cancel()
        gone = not working.done()
        if gone:
            working.cancel()
        await asyncio.wait({working, watching})
    if not gone and not working.cancelled():
        working.result()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def ended_early() -> EngineUnavailable:
    """An engine's stream without a last piece."""
    return EngineUnavailable("The engine ended before it had answered.", action="Try again.")
