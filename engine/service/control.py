"""The routes by which clients find, load, watch and stop the daemon, in front of what it speaks otherwise."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.errors import EngineUnavailable, HearthError, RequestError
from engine.service.facts import DaemonFacts
from engine.service.protocol import CONTROL, HELLO, LOAD, PROTOCOL, PROTOCOL_HEADER, STATE, STOP
from engine.service.router import Router
from engine.service.wire import error_to_json
from engine.types import EngineStatus

_STATM = Path("/proc/self/statm")

LONGEST_WISH = 1 << 16
"""Bytes of LOAD's body, which holds a name or a path."""


class Wish(BaseModel):
    """What a client wants to have in memory; unknown fields come from newer clients and mean nothing here."""

    model_config = ConfigDict(strict=True)

    model: str
    threads: Annotated[int, Field(ge=0, le=1024)] = 0


class Control:
    """Answers HELLO, LOAD, STATE and STOP, and hands every other request to `app`.

    stop: begins the end of the daemon; returns at once.
    body_seconds: the time in which a body must have come.
    """

    def __init__(
        self,
        app: ASGIApp,
        router: Router,
        facts: DaemonFacts,
        stop: Callable[[], None],
        *,
        body_seconds: float,
    ) -> None:
        self._app = app
        self._router = router
        self._facts = facts
        self._stop = stop
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        if request.url.path.startswith(CONTROL):
            response = await self._answer(request)
        elif (spoken := request.headers.get(PROTOCOL_HEADER)) not in (None, str(PROTOCOL)):
            response = _failed(
                EngineUnavailable(f"The daemon speaks protocol {PROTOCOL}, and the client {spoken}."), 409
            )
        else:
            await self._app(scope, receive, send)
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        facts = self._facts
        match request.method, request.url.path:
            case "GET", path if path == HELLO:
                return JSONResponse({"protocol": facts.protocol, "version": facts.version, "pid": facts.pid})
            case "GET", path if path == STATE:
                return JSONResponse(await self._state())
            case "POST", path if path == STOP:
                self._stop()
                return JSONResponse({}, 202)
            case "POST", path if path == LOAD:
                return await self._load(request)
            case _:
                return _failed(RequestError("There is no such route."), 404)

    async def _load(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(self._body_seconds):
                body = await _body(request)
        except TimeoutError:
            seconds = self._body_seconds
            return _failed(RequestError(f"The request's body did not come within {seconds:g} seconds."), 408)
        except ClientDisconnect:
            return Response()  # to nobody
        if body is None:
            what = f"The request's body is longer than {LONGEST_WISH} bytes."
            return _failed(RequestError(what), 413)
        try:
            wish = Wish.model_validate_json(body)
        except ValidationError:
            return _failed(RequestError('An object {"model": NAME, "threads": N} was expected.'), 400)
        try:
            await self._router.load(wish.model, wish.threads)
        except HearthError as error:
            return _failed(error, 503)
        return JSONResponse({})

    async def _state(self) -> dict[str, object]:
        host = self._router.host
        try:
            engine = await host.status()
        except HearthError as error:
            engine = EngineStatus("failed", message=str(error))
        metrics = host.metrics()
        return {
            **asdict(self._facts),
            "uptime_s": time.time() - self._facts.started,
            "memory_bytes": resident_bytes(),
            "current_model": host.model,
            "engine": asdict(engine),
            "requests": asdict(host.counts),
            "cache": asdict(metrics) if metrics is not None else None,
            "remotes": [asdict(remote) for remote in self._router.states()],
        }


def resident_bytes(statm: Path = _STATM) -> int | None:
    """Memory of this process that is in RAM; None where the system does not tell (other than Linux)."""
    try:
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


async def _body(request: Request) -> bytes | None:
    """The body; None when it is longer than LONGEST_WISH. Raises ClientDisconnect."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > LONGEST_WISH:
            return None
    return body


def _failed(error: HearthError, status: int) -> Response:
    # A body that was not read whole would be taken for the next request.
    headers = {"connection": "close"} if status in (408, 413) else None
    return JSONResponse(error_to_json(error), status, headers)
