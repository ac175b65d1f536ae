"""HTTP/1.1 over a Unix socket, as little as the daemon's client needs: a connection for each request.

The service may cost a request a millisecond (bench/service_overhead.py measures it), which a general client
takes by itself; and closing the connection is how a request is cancelled, so there is little to pool.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import h11

_READ_BYTES = 1 << 16
_LONGEST_LINE = 1 << 24
_BACKLOG_FULL_SECONDS = 0.01

Headers = Sequence[tuple[str, str]]


class NotListening(Exception):
    """Nobody answers on the socket; the request was not sent."""


class ConnectionLost(Exception):
    """The connection ended before the answer did, or what came was not HTTP."""


class Response:
    """An answer whose body is still coming."""

    def __init__(self, reader: asyncio.StreamReader, connection: h11.Connection) -> None:
        self._reader = reader
        self._connection = connection
        self.status = 0

    async def start(self) -> None:
        """Read the head. Raises ConnectionLost."""
        while not isinstance(event := await self._next(), h11.Response):
            pass
        self.status = event.status_code

    async def body(self) -> bytes:
        """The whole body. Raises ConnectionLost."""
        return b"".join([piece async for piece in self._pieces()])

    async def lines(self) -> AsyncIterator[bytes]:
        """The body's lines without their ends, each as soon as it is whole. Raises ConnectionLost."""
        rest = b""
        async for piece in self._pieces():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line
            if len(rest) > _LONGEST_LINE:
                raise ConnectionLost
        if rest:
            yield rest

    async def _pieces(self) -> AsyncIterator[bytes]:
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                yield bytes(event.data)

    async def _next(self) -> h11.Event:
        try:
            while (event := self._connection.next_event()) is h11.NEED_DATA:
                self._connection.receive_data(await self._reader.read(_READ_BYTES))
        except (h11.RemoteProtocolError, OSError) as error:
            raise ConnectionLost from error
        if isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
            raise ConnectionLost
        assert not isinstance(event, type)  # noqa: S101 - the sentinels are dealt with above
        return event


@asynccontextmanager
async def exchange(
    path: Path, method: str, target: str, *, body: bytes = b"", headers: Headers = ()
) -> AsyncIterator[Response]:
    """Send a request and give the answer once its head is there; leaving the block closes the connection.

    Raises NotListening, ConnectionLost.
    """
    reader, writer = await _connect(path)
    try:
        connection = h11.Connection(h11.CLIENT)
        head = h11.Request(
            method=method,
            target=target,
            headers=[
                ("host", "localhost"),
                ("connection", "close"),
                ("content-length", str(len(body))),
                *([("content-type", "application/json")] if body else []),
                *headers,
            ],
        )
        sent = (
            connection.send(head),
            connection.send(h11.Data(data=body)),
            connection.send(h11.EndOfMessage()),
        )
        writer.write(b"".join(piece for piece in sent if piece))
        # The answer may come before all is sent, and a daemon that dies shows in reading it.
        with suppress(OSError):
            await writer.drain()
        response = Response(reader, connection)
        await response.start()
        yield response
    finally:
        writer.transport.abort()


async def _connect(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Waits while more connections than the daemon has room for wait to be accepted. Raises NotListening.

    Not by asyncio alone: it takes a Unix socket whose `connect` would block for one that is connecting.
    """
    connecting = socket.socket(socket.AF_UNIX)
    try:
        connecting.setblocking(False)
        while True:
            try:
                connecting.connect(str(path))
                break
            except BlockingIOError:
                await asyncio.sleep(_BACKLOG_FULL_SECONDS)
        return await asyncio.open_unix_connection(sock=connecting)
    except OSError as error:
        connecting.close()
        raise NotListening from error
    except BaseException:
        connecting.close()
        raise
