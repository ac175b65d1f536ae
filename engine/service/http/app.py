"""The HTTP application: every route, behind the guard."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from engine.errors import RequestError
from engine.service.http import hearth, llama_cpp, metrics, openapi
from engine.service.http.anthropic import messages
from engine.service.http.cors import Cors
from engine.service.http.guard import Guard
from engine.service.http.openai import chat, completions, embeddings, models, responses
from engine.service.http.problems import Problem, api_of, error_response
from engine.service.http.service import Service
from engine.service.http.settings import Access, Defaults, Limits
from engine.service.served import Served


def build_app(
    engine: Served,
    *,
    token: str | None,
    counters: metrics.Metrics | None = None,
    limits: Limits | None = None,
    defaults: Defaults | None = None,
    hosts: frozenset[str] = frozenset(),
    origins: frozenset[str] = frozenset(),
) -> Starlette:
    """The ASGI application over an engine; nothing in it outlives a request but the counters.

    counters: what /metrics shows; several applications over one engine share them.
    token: what every request but GET /health must show; None for a socket that only its owner can open.
    hosts, origins: see `settings.Access`.
    """
    counters = counters or metrics.Metrics()
    limits = limits or Limits()
    service = Service(metrics.Metered(engine, counters), limits, defaults or Defaults())
    endpoints = [
        *models.endpoints(service),
        *completions.endpoints(service),
        *chat.endpoints(service),
        *responses.endpoints(service),
        *embeddings.endpoints(service),
        *messages.endpoints(service),
        *llama_cpp.endpoints(service),
        *hearth.endpoints(service),
        *metrics.endpoints(counters),
    ]
    endpoints.append(openapi.endpoint(endpoints))
    return Starlette(
        routes=[endpoint.route() for endpoint in endpoints],
        middleware=[
            Middleware(metrics.CountRequests, counters),
            Middleware(Cors, origins),
            Middleware(Guard, Access(token, hosts, origins), limits),
        ],
        exception_handlers={HTTPException: _no_such_route},
    )


async def _no_such_route(request: Request, error: Exception) -> Response:
    """404 and 405, in the shape of the API that the path belongs to."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "There is no such route", 405: "The route does not take this method"}
    path = request.url.path[:200]
    what = f"{words.get(status, 'The request cannot be answered')}: {request.method} {path}."
    return error_response(api_of(path), Problem(status, RequestError(what)))
