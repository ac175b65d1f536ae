"""The engine in the user's daemon, for programs that want completions and no model of their own."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from engine.client.http import ConnectionLost, NotListening, Response, exchange
from engine.client.link import DaemonLink
from engine.errors import EngineUnavailable
from engine.service.protocol import LOAD, PROTOCOL, PROTOCOL_HEADER
from engine.service.wire import error_from_json
from engine.types import ChatDelta, ChatRequest, CompletionRequest, EngineStatus, InfillRequest, TextDelta

API = "/hearth/v1/"
_ANOTHER_PROTOCOL = 409
_HEADERS = ((PROTOCOL_HEADER, str(PROTOCOL)),)

_JSON: dict[type, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind)
    for kind in (InfillRequest, CompletionRequest, ChatRequest, TextDelta, ChatDelta, EngineStatus)
}

Delta = TypeVar("Delta", TextDelta, ChatDelta)


class RemoteEngine:
    """Implements `engine.client.EngineClient` over the daemon's socket.

    A request that finds no daemon starts one. A request whose daemon dies under it raises EngineUnavailable,
    and the next one starts a daemon again; what generates nothing is asked once more by itself.

    model: the model that every request names.
    """

    def __init__(self, link: DaemonLink, model: str) -> None:
        self._link = link
        self._model = model
        self._query = f"?model={quote(model, safe='')}"
        self._closed = False

    def infill(self, request: InfillRequest) -> AsyncGenerator[TextDelta, None]:
        """Stream the text that belongs between prefix and suffix."""
        return self._stream("infill", request, TextDelta)

    def complete(self, request: CompletionRequest) -> AsyncGenerator[TextDelta, None]:
        """Continue a text as it is."""
        return self._stream("complete", request, TextDelta)

    def chat(self, request: ChatRequest) -> AsyncGenerator[ChatDelta, None]:
        """Stream the assistant's next message."""
        return self._stream("chat", request, ChatDelta)

    async def warm(self, request: InfillRequest) -> None:
        """Prefill the request's prompt so that a following `infill` starts at once; generates nothing."""
        await self._ask("POST", API + "warm" + self._query, _dump(request))

    async def status(self) -> EngineStatus:
        """The engine's state; loads nothing."""
        status: EngineStatus = _read(EngineStatus, await self._ask("GET", API + "status" + self._query))
        return status

    async def load(self, threads: int = 0) -> None:
        """Return once the model is in the daemon's memory.

        threads: from now on, for every model of the daemon; 0 leaves it as it is.
        Raises HearthError with the reason when it cannot be loaded.
        """
        await self._ask("POST", LOAD, json.dumps({"model": self._model, "threads": threads}).encode())

    async def close(self) -> None:
        """Ask nothing any more; the daemon goes on. Later calls raise EngineUnavailable."""
        self._closed = True

    async def _ask(self, method: str, target: str, body: bytes = b"") -> bytes:
        """A whole answer. Asked again once when the daemon dies under it."""
        try:
            return await self._ask_once(method, target, body)
        except ConnectionLost:
            pass
        try:
            return await self._ask_once(method, target, body)
        except ConnectionLost:
            raise _died() from None

    async def _ask_once(self, method: str, target: str, body: bytes) -> bytes:
        async with self._exchange(method, target, body) as response:
            answer = await response.body()
            _check(response.status, answer)
            return answer

    async def _stream(self, route: str, request: object, kind: type[Delta]) -> AsyncGenerator[Delta, None]:
        try:
            async with self._exchange("POST", API + route + self._query, _dump(request)) as response:
                if response.status != 200:
                    _check(response.status, await response.body())
                async for line in response.lines():
                    if line.startswith(b'{"error"') and (error := error_from_json(json.loads(line))):
                        raise error
                    delta = _read(kind, line)
                    yield delta
                    if delta.finish is not None:
                        return
        except ConnectionLost:
            pass
        raise _died()

    @asynccontextmanager
    async def _exchange(self, method: str, target: str, body: bytes) -> AsyncIterator[Response]:
        """The answer of a daemon that speaks our protocol. Raises ConnectionLost when it dies."""
        if self._closed:
            raise EngineUnavailable("The engine was closed.")
        for again in (True, False):
            try:
                async with exchange(
                    self._link.socket, method, target, body=body, headers=_HEADERS
                ) as response:
                    if response.status != _ANOTHER_PROTOCOL:
                        yield response
                        return
            except NotListening:
                pass
            if again:
                # None is there, or another one than before: start one, or hear why there cannot be one.
                await self._link.ensure()
        raise _died()


def _check(status: int, answer: bytes) -> None:
    """Raise the error that an answer tells, or that its status means."""
    if status in (200, 204):
        return
    try:
        error = error_from_json(json.loads(answer))
    except ValueError:
        error = None
    raise error or EngineUnavailable(
        f"The engine answered with the HTTP status {status}.", action="Run `hearth logs` to see why."
    )


def _dump(request: object) -> bytes:
    return _JSON[type(request)].dump_json(request)


def _read(kind: type, text: bytes) -> Any:
    try:
        return _JSON[kind].validate_json(text)
    except ValidationError:
        # Not from it: its words quote the answer.
        raise EngineUnavailable(
            "The engine's answer cannot be read.", action="Run `hearth stop`; it is started again by itself."
        ) from None


def _died() -> EngineUnavailable:
    return EngineUnavailable(
        "The engine ended before it had answered.",
        meaning="There is no suggestion this time; the next request starts it again.",
    )
