"""uvicorn inside the daemon's event loop: several sockets, our own signals, one drain."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

from engine.service.http.heads import heads_within

_KEEP_ALIVE_SECONDS = 30


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """The daemon handles signals: uvicorn would end the process by them, and the model is still open."""
        yield


class Serving:
    """The servers that run."""

    def __init__(self, servers: Sequence[_Server], tasks: Sequence[asyncio.Task[None]]) -> None:
        self._servers = servers
        self._tasks = tasks

    async def wait(self, stopping: asyncio.Event) -> None:
        """Return when told to stop, or when a server has ended by itself."""
        told = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait({told, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            told.cancel()

    def hurry(self) -> None:
        """Do not wait for requests any longer."""
        for server in self._servers:
            server.force_exit = True


@asynccontextmanager
async def serving(
    apps: Sequence[tuple[socket.socket, ASGIApp]], *, drain_seconds: int, head_seconds: float
) -> AsyncIterator[Serving]:
    """Serve each application on its listening socket.

    head_seconds: the time in which the head of a request must have come.

    On leaving, nothing new is accepted, running requests have `drain_seconds` to finish, and are
    then cancelled.
    """
    servers = [_Server(_config(app, drain_seconds, head_seconds)) for _, app in apps]
    tasks = [
        asyncio.create_task(server.serve(sockets=[listener]))
        for server, (listener, _) in zip(servers, apps, strict=True)
    ]
    try:
        yield Serving(servers, tasks)
    finally:
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*tasks)


def _config(app: ASGIApp, drain_seconds: int, head_seconds: float) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=heads_within(head_seconds),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=drain_seconds,
    )
