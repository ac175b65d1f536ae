"""A route: what it is called, what it takes, what answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from engine.errors import HearthError
from engine.service.http.answers import Stream, send_stream, while_connected
from engine.service.http.body import read_body
from engine.service.http.problems import api_of, error_response, problem_of

Answer = Response | Stream


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as its handler sees it.

    body: the value that the route's adapter made; None for a GET.
    """

    body: Any
    path: Mapping[str, str]
    query: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An ASGI application for one method of one path.

    body: what makes the body's value; None for a GET.
    handle: answers; raises HearthError.
    """

    method: str
    path: str
    summary: str
    handle: Callable[[Asked], Awaitable[Answer]]
    body: TypeAdapter[Any] | None = None

    def route(self) -> Route:
        return Route(self.path, self, methods=[self.method], name=f"{self.method} {self.path}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        await while_connected(receive, self._answer(request, body, send))

    async def _answer(self, request: Request, body: bytes, send: Send) -> None:
        scope, receive = request.scope, request.receive
        try:
            value = None if self.body is None else read_body(body, self.body)
            answer = await self.handle(Asked(value, request.path_params, request.query_params))
            if isinstance(answer, Stream):
                await send_stream(answer, send)
                return
        except HearthError as error:
            answer = error_response(api_of(scope["path"]), problem_of(error))
        await answer(scope, receive, send)
