"""Which engine answers: a remote for its models, the host of this machine's one model for all others."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import TypeVar

import numpy as np

from engine.backends.openai.circuit import Health
from engine.backends.openai.failures import Refused, Unreachable
from engine.backends.openai.remote import Remote
from engine.errors import EngineUnavailable, HearthError
from engine.generation.embedding import Embeddings
from engine.service.host import ModelHost
from engine.service.remotes import RemoteCollector, RemoteCounts, RemoteState, state_of
from engine.service.served import ServedModel
from engine.types import ChatDelta, ChatRequest, CompletionRequest, EngineStatus, InfillRequest, TextDelta

log = logging.getLogger(__name__)

Delta = TypeVar("Delta", TextDelta, ChatDelta)
Result = TypeVar("Result")


class _Route:
    """A remote, and what was asked of it."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.counts = RemoteCounts()


class Router:
    """Implements `engine.service.served.Served`. Used on one event loop.

    A request for a remote's model takes no turn of the model in memory. When the remote does not begin to
    answer and names a fallback, that model of this machine answers; log, status and metrics tell. Only what
    generates text falls back: token ids and vectors of another model would be wrong, not worse.

    default: the model of requests that name none. Where it is a remote's, such requests go there; else they
        go to the host, which prefers what is in memory.
    """

    def __init__(self, host: ModelHost, remotes: Sequence[Remote], *, default: str) -> None:
        self.host = host
        self._default = default
        self._remotes = [_Route(remote) for remote in remotes]
        self._routes = {model: route for route in self._remotes for model in route.remote.settings.models}
        self._closed = False

    def infill(self, request: InfillRequest, model: str = "") -> AsyncGenerator[TextDelta, None]:
        """As `engine.client.EngineClient.infill`, by the model of that name."""
        return self._stream(
            model,
            lambda remote, name: remote.infill(request, name),
            lambda name: self.host.infill(request, name),
        )

    def complete(self, request: CompletionRequest, model: str = "") -> AsyncGenerator[TextDelta, None]:
        """Continue a text as it is."""
        return self._stream(
            model,
            lambda remote, name: remote.complete(request, name),
            lambda name: self.host.complete(request, name),
            # Token ids mean nothing to another model.
            may_fall_back=isinstance(request.prompt, str),
        )

    def chat(self, request: ChatRequest, model: str = "") -> AsyncGenerator[ChatDelta, None]:
        """As `engine.client.EngineClient.chat`, by the model of that name."""
        return self._stream(
            model,
            lambda remote, name: remote.chat(request, name),
            lambda name: self.host.chat(request, name),
        )

    async def warm(self, request: InfillRequest, model: str = "") -> None:
        """Prefill the request's prompt. A remote is sent nothing: code goes there for an answer alone."""
        name = model or self._default
        route = self._route(model)
        if route is None:
            await self.host.warm(request, model)
        elif route.remote.connection.health is Health.DOWN and route.remote.settings.fallback:
            await self.host.warm(request, route.remote.settings.fallback)
        else:
            route.remote.check_infill(name)

    async def status(self, model: str = "") -> EngineStatus:
        """What is in memory, or what is known of a remote's model; loads nothing and asks nobody."""
        route = self._route(model)
        if route is None:
            return await self.host.status()
        status = route.remote.status(model or self._default)
        fallback = route.remote.settings.fallback
        if route.remote.connection.health is Health.DOWN and fallback:
            message = f"{status.message} Meanwhile {fallback} of this machine answers."
            return replace(status, state="ready", message=message)
        return status

    async def models(self) -> Sequence[ServedModel]:
        """The models of this machine and those of the remotes."""
        local = [model for model in await self.host.models() if model.name not in self._routes]
        return [*local, *(ServedModel(name) for name in self._routes)]

    async def tokenize(self, text: str, *, special: bool = False, model: str = "") -> list[int]:
        """Token ids; special: whether the spelling of a special token means it."""
        route = self._route(model)
        if route is None:
            return await self.host.tokenize(text, special=special, model=model)
        name = model or self._default
        return await self._counted(route, route.remote.tokenize(text, name, special=special))

    async def detokenize(self, ids: Sequence[int], *, model: str = "") -> str:
        """The text of tokens."""
        route = self._route(model)
        if route is None:
            return await self.host.detokenize(ids, model=model)
        return await self._counted(route, route.remote.detokenize(ids, model or self._default))

    async def count_tokens(self, request: ChatRequest, model: str = "") -> int:
        """The length of a chat's prompt."""
        route = self._route(model)
        if route is None:
            return await self.host.count_tokens(request, model)
        return await self._counted(route, route.remote.count_tokens(request, model or self._default))

    async def embed(self, texts: Sequence[str], model: str = "") -> Embeddings:
        """A vector for each text."""
        route = self._route(model)
        if route is None:
            return await self.host.embed(texts, model)
        vectors, tokens = await self._counted(route, route.remote.embed(texts, model or self._default))
        return Embeddings([np.array(vector, np.float32) for vector in vectors], tokens)

    async def load(self, model: str = "", threads: int = 0) -> None:
        """Return once the model can be asked. Raises HearthError with the reason when it cannot be.

        A remote is looked at when its models are not known yet; while it is down, its fallback is loaded.
        """
        route = self._route(model)
        if route is None:
            await self.host.load(model, threads)
            return
        remote, connection = route.remote, route.remote.connection
        if connection.listed is None and connection.health is not Health.DOWN:
            await connection.look()
        reasons = " ".join(dict.fromkeys(connection.reasons.values()))
        if connection.health is Health.REFUSED:
            raise Refused(reasons, action="Mend it, then run `hearth stop`.")
        if connection.health is Health.DOWN:
            if remote.settings.fallback is None:
                raise EngineUnavailable(
                    reasons,
                    meaning="It is used as soon as it answers.",
                    action="Run `hearth doctor`; or name a `fallback` in service.toml.",
                )
            await self.host.load(remote.settings.fallback, threads)

    def watch(self) -> None:
        """Look at the remotes in the background, so that their state is known before the first request."""
        for route in self._remotes:
            route.remote.connection.watch()

    def states(self) -> list[RemoteState]:
        """What is known of each remote."""
        return [state_of(route.remote, route.counts) for route in self._remotes]

    def collector(self) -> RemoteCollector:
        """Health and counts of the remotes, for Prometheus."""
        return RemoteCollector([(route.remote, route.counts) for route in self._remotes])

    def refuse(self) -> None:
        """Take no request any more; what runs goes on."""
        self._closed = True
        self.host.refuse()

    async def close(self) -> None:
        """End every request and let go of connections and memory."""
        self.refuse()
        for route in self._remotes:
            await route.remote.close()
        await self.host.close()

    def _route(self, model: str) -> _Route | None:
        return self._routes.get(model or self._default)

    def _stream(
        self,
        model: str,
        ask_remote: Callable[[Remote, str], AsyncGenerator[Delta, None]],
        ask_host: Callable[[str], AsyncGenerator[Delta, None]],
        *,
        may_fall_back: bool = True,
    ) -> AsyncGenerator[Delta, None]:
        route = self._route(model)
        if route is None:
            return ask_host(model)
        fallback = route.remote.settings.fallback if may_fall_back else None
        name = model or self._default
        return self._remote_stream(route, lambda: ask_remote(route.remote, name), fallback, ask_host)

    async def _remote_stream(
        self,
        route: _Route,
        ask: Callable[[], AsyncGenerator[Delta, None]],
        fallback: str | None,
        ask_host: Callable[[str], AsyncGenerator[Delta, None]],
    ) -> AsyncGenerator[Delta, None]:
        with self._counting(route):
            try:
                async with aclosing(ask()) as deltas:
                    async for delta in deltas:
                        yield delta
                return
            except Unreachable:  # before the first piece, or it would be another error
                if fallback is None:
                    raise
            route.counts.fallbacks += 1
            log.warning("the remote %s does not answer; the fallback does", route.remote.name)
            async with aclosing(ask_host(fallback)) as deltas:
                async for delta in deltas:
                    yield delta

    async def _counted(self, route: _Route, work: Awaitable[Result]) -> Result:
        with self._counting(route):
            return await work

    @contextmanager
    def _counting(self, route: _Route) -> Iterator[None]:
        if self._closed:
            raise EngineUnavailable("The engine is shutting down.", action="Try again in a moment.")
        counts = route.counts
        counts.requests += 1
        counts.running += 1
        try:
            yield
        except HearthError:
            counts.failed += 1
            raise
        finally:
            counts.running -= 1
