"""Who may ask, and how much: everything that is decided before a request is understood.

A web page can make a browser send requests to loopback addresses, and by DNS rebinding even read the answers.
So the Host header must name this machine, a request with an Origin comes from a page and is refused, and a
body must be declared as JSON, which no page can send without asking first (compare CVE-2025-66414 and
CVE-2025-49596). Pages that the settings name are let through, and answered as `cors.py` tells.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import traceback

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.errors import HearthError, RequestError
from engine.service.http.deadlines import begin
from engine.service.http.problems import (
    Api,
    BadField,
    Problem,
    api_of,
    error_response,
    internal_problem,
    problem_of,
)
from engine.service.http.settings import Access, Limits

log = logging.getLogger(__name__)

OPEN_PATHS = frozenset({"/health"})
"""Answered without a token; they tell nothing but that the service runs."""


class _Gone(Exception):
    """The client has left while it sent its body."""


class Guard:
    """ASGI middleware: refuses, or hands on the request with its body read whole and within the limits."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits) -> None:
        self._app = app
        self._access = access
        self._limits = limits
        self._token = access.token.encode() if access.token is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        api = api_of(scope["path"])
        refusal = self._refusal(scope)
        if refusal is None:
            try:
                body = await self._body(receive)
                begin(Headers(scope=scope), self._limits.request_seconds)
            except _Gone:
                return
            except TimeoutError:
                seconds = self._limits.body_seconds
                refusal = _problem(408, f"The request's body did not come within {seconds:g} seconds.")
            except BadField as error:
                refusal = problem_of(error)
            else:
                if body is not None:
                    await self._guarded(api, scope, _replayed(body, receive), send)
                    return
                refusal = self._too_large()
        # Closing is what keeps the rest of a body from being read at all.
        await error_response(api, refusal, close=True)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        if not self._host_is_ours(headers.getlist("host"), scope):
            return _problem(
                403,
                "The Host header does not name this machine.",
                "Ask localhost, 127.0.0.1 or [::1], or allow the name in the service's settings.",
            )
        origins = headers.getlist("origin")
        if any(origin not in self._access.origins for origin in origins):
            return _problem(403, "Requests from web pages are refused (the request has an Origin header).")
        if not self._token_is_right(scope["path"], headers):
            return _problem(
                401,
                "The request has no valid token.",
                "Send it as `Authorization: Bearer TOKEN` or as `x-api-key: TOKEN`.",
            )
        if scope["method"] == "POST" and not _says_json(headers.getlist("content-type")):
            return _problem(415, "The Content-Type of a POST must be application/json.")
        if _declared_length(headers) > self._limits.body_bytes:
            return self._too_large()
        return None

    def _host_is_ours(self, hosts: list[str], scope: Scope) -> bool:
        server = scope.get("server")
        if not hosts or hosts == [""]:
            return server is None or server[1] is None  # a Unix socket has no name
        if len(hosts) != 1:
            return False
        host = hosts[0].lower()
        return _is_loopback(host) or bool({host, host.partition(":")[0]} & self._access.hosts)

    def _token_is_right(self, path: str, headers: Headers) -> bool:
        if self._token is None or path in OPEN_PATHS:
            return True
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        given = [shown.strip()] if scheme.lower() == "bearer" else []
        given += headers.getlist("x-api-key")
        return any(hmac.compare_digest(one.encode("latin-1"), self._token) for one in given)

    async def _body(self, receive: Receive) -> bytes | None:
        """The body; None when it is longer than allowed. Never holds more than one piece above the limit."""
        pieces: list[bytes] = []
        length = 0
        async with asyncio.timeout(self._limits.body_seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _Gone
                piece = message.get("body", b"")
                length += len(piece)
                if length > self._limits.body_bytes:
                    return None
                pieces.append(piece)
                if not message.get("more_body", False):
                    return b"".join(pieces)

    def _too_large(self) -> Problem:
        return _problem(413, f"The request's body is longer than {self._limits.body_bytes} bytes.")

    async def _guarded(self, api: Api, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; a fault in it is answered as an error and logged without its words."""
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:  # noqa: BLE001 - the last resort: whatever it is, the client gets an answer
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("%s on %s %s\n%s", type(error).__name__, scope["method"], api.value, where)
            if not started:
                await error_response(api, internal_problem(error))(scope, receive, send)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message, and then whatever comes, which is that the client has gone."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _is_loopback(host: str) -> bool:
    """host: in small letters."""
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        if not bracket:
            return False
    else:
        name, colon, port = host.partition(":")
        rest = colon + port
    if rest and not (rest.startswith(":") and rest[1:].isascii() and rest[1:].isdigit()):
        return False
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _says_json(content_types: list[str]) -> bool:
    return (
        len(content_types) == 1 and content_types[0].partition(";")[0].strip().lower() == "application/json"
    )


def _declared_length(headers: Headers) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0


def _problem(status: int, what: str, action: str = "") -> Problem:
    kind = RequestError if status < 500 else HearthError
    return Problem(status, kind(what, action=action))
