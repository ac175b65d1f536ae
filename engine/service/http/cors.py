"""Cross-origin answers for the web pages that the settings name, and for no others."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send


class Cors:
    """ASGI middleware in front of the guard, since a preflight has no token and pages must read refusals.

    Requests of other origins go on as they came; the guard refuses them, without a CORS header.

    origins: exact values of the Origin header. Each may read answers, and send any header.
    """

    def __init__(self, app: ASGIApp, origins: frozenset[str]) -> None:
        self._app = app
        self._origins = origins
        self._shared = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),  # mirrored, so never a wildcard: SDKs send some of their own
            expose_headers=("retry-after",),
            allow_private_network=True,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = scope["type"] == "http" and Headers(scope=scope).get("origin") in self._origins
        await (self._shared if named else self._app)(scope, receive, send)
