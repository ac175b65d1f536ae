"""What Prometheus may read: counts and times, never text."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.generation.embedding import Embeddings
from engine.generation.metrics import EngineMetrics
from engine.service.http.deadlines import limited, within
from engine.service.http.endpoint import Answer, Asked, Endpoint
from engine.service.http.engine_metrics import EngineCollector
from engine.service.served import Served, ServedModel
from engine.types import (
    ChatDelta,
    ChatRequest,
    CompletionRequest,
    EngineStatus,
    InfillRequest,
    TextDelta,
    Timing,
)

Delta = TypeVar("Delta", TextDelta, ChatDelta)

_TTFT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_ITL_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"


class Metrics:
    """The service's counters, in a registry of their own.

    engine: gives the counts of the engine in memory, which are shown beside them; None while there is none.
    collectors: what others count, shown too.
    """

    def __init__(
        self,
        engine: Callable[[], EngineMetrics | None] = lambda: None,
        collectors: Sequence[Collector] = (),
    ) -> None:
        registry = CollectorRegistry()
        EngineCollector(registry, engine)
        for collector in collectors:
            registry.register(collector)
        self.registry = registry
        self.requests = Counter(
            "hearth_http_requests",
            "HTTP requests by route and status",
            ("route", "status"),
            registry=registry,
        )
        self.running = Gauge(
            "hearth_streams_running", "Generations waiting or running", ("kind",), registry=registry
        )
        self.cancelled = Counter(
            "hearth_streams_cancelled",
            "Generations that ended before their end",
            ("kind",),
            registry=registry,
        )
        self.prompt_tokens = Counter("hearth_prompt_tokens", "Tokens of prompts", registry=registry)
        self.cached_tokens = Counter(
            "hearth_cached_tokens", "Tokens of prompts found in the cache", registry=registry
        )
        self.generated_tokens = Counter("hearth_generated_tokens", "Tokens generated", registry=registry)
        self.embedded_texts = Counter(
            "hearth_embedded_texts", "Texts of which vectors were made", registry=registry
        )
        self.embedded_tokens = Counter(
            "hearth_embedded_tokens", "Tokens of texts of which vectors were made", registry=registry
        )
        self.queue = Histogram(
            "hearth_queue_seconds", "Time in the engine's queue", registry=registry, buckets=_TTFT_BUCKETS
        )
        self.first_token = Histogram(
            "hearth_time_to_first_token_seconds",
            "From the request to its first piece",
            ("kind",),
            registry=registry,
            buckets=_TTFT_BUCKETS,
        )
        self.between_tokens = Histogram(
            "hearth_inter_token_seconds",
            "Between pieces, for each token of the later one",
            ("kind",),
            registry=registry,
            buckets=_ITL_BUCKETS,
        )

    def count_prompt(self, timing: Timing) -> None:
        self.prompt_tokens.inc(timing.prompt_tokens)
        self.cached_tokens.inc(timing.cached_tokens)
        self.queue.observe(timing.queue_s)


def endpoints(metrics: Metrics) -> list[Endpoint]:
    async def show(_: Asked) -> Answer:
        return Response(generate_latest(metrics.registry), headers={"content-type": _CONTENT_TYPE})

    return [Endpoint("GET", "/metrics", "Counters and times for Prometheus", show)]


class CountRequests:
    """ASGI middleware: every request by the route it found ("none" when refused before) and its status."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = "gone"  # the client left before an answer began

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            found = scope.get("endpoint")
            route = found.path if isinstance(found, Endpoint) else "none"
            self._metrics.requests.labels(route, status).inc()


class Metered:
    """Implements Served over another: gives each generation its deadline, and measures what passes."""

    def __init__(self, engine: Served, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics

    def infill(self, request: InfillRequest, model: str = "") -> AsyncGenerator[TextDelta, None]:
        return self._measured("infill", self._engine.infill(within(request), model))

    def complete(self, request: CompletionRequest, model: str = "") -> AsyncGenerator[TextDelta, None]:
        return self._measured("complete", self._engine.complete(within(request), model))

    def chat(self, request: ChatRequest, model: str = "") -> AsyncGenerator[ChatDelta, None]:
        return self._measured("chat", self._engine.chat(within(request), model))

    async def warm(self, request: InfillRequest, model: str = "") -> None:
        await self._engine.warm(within(request), model)

    async def status(self, model: str = "") -> EngineStatus:
        return await self._engine.status(model)

    async def models(self) -> Sequence[ServedModel]:
        return await self._engine.models()

    async def tokenize(self, text: str, *, special: bool = False, model: str = "") -> list[int]:
        return await self._engine.tokenize(text, special=special, model=model)

    async def detokenize(self, ids: Sequence[int], *, model: str = "") -> str:
        return await self._engine.detokenize(ids, model=model)

    async def count_tokens(self, request: ChatRequest, model: str = "") -> int:
        return await self._engine.count_tokens(request, model)

    async def embed(self, texts: Sequence[str], model: str = "") -> Embeddings:
        made = await limited(self._engine.embed(texts, model))
        self._metrics.embedded_texts.inc(len(made.vectors))
        self._metrics.embedded_tokens.inc(made.tokens)
        return made

    async def _measured(self, kind: str, stream: AsyncGenerator[Delta, None]) -> AsyncGenerator[Delta, None]:
        metrics = self._metrics
        last = time.monotonic()
        begun = ended = False
        timing: Timing | None = None
        between = metrics.between_tokens.labels(kind)
        with metrics.running.labels(kind).track_inprogress():
            try:
                async with aclosing(stream):
                    async for delta in stream:
                        now = time.monotonic()
                        if not begun:
                            metrics.first_token.labels(kind).observe(now - last)
                            begun = True
                        elif delta.tokens > 0:
                            between.observe((now - last) / delta.tokens)
                        last = now
                        timing = delta.timing or timing
                        metrics.generated_tokens.inc(delta.tokens)
                        ended = delta.finish is not None
                        yield delta
            finally:
                # The last one: a remote may tell the length of the prompt at the end alone.
                if timing is not None:
                    metrics.count_prompt(timing)
                if not ended:
                    metrics.cancelled.labels(kind).inc()
