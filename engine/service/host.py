"""The one model in the daemon's memory: loaded on demand, exchanged, and let go when nobody needs it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from engine.errors import DeadlineExceeded, EngineBusy, EngineUnavailable, HearthError
from engine.generation.embedding import Embeddings
from engine.generation.metrics import EngineMetrics
from engine.generation.scheduler import MAX_REQUESTS
from engine.service.served import ServedModel
from engine.types import ChatDelta, ChatRequest, CompletionRequest, EngineStatus, InfillRequest, TextDelta

log = logging.getLogger(__name__)

Delta = TypeVar("Delta", TextDelta, ChatDelta)
Request = TypeVar("Request", InfillRequest, CompletionRequest, ChatRequest)
Result = TypeVar("Result")

RETRY_SECONDS = 5.0
"""For so long a model that failed to load is not tried again, lest typing loads it at every key."""


class HostedEngine(Protocol):
    """An engine with one model, as `engine.client.in_process` makes it."""

    def infill(self, request: InfillRequest) -> AsyncGenerator[TextDelta, None]: ...
    def complete(self, request: CompletionRequest) -> AsyncGenerator[TextDelta, None]: ...
    def chat(self, request: ChatRequest) -> AsyncGenerator[ChatDelta, None]: ...
    async def warm(self, request: InfillRequest) -> None: ...
    async def tokenize(self, text: str, *, special: bool = False) -> list[int]: ...
    async def detokenize(self, ids: Sequence[int]) -> str: ...
    async def count_tokens(self, request: ChatRequest) -> int: ...
    async def embed(self, texts: Sequence[str]) -> Embeddings: ...
    async def status(self) -> EngineStatus: ...
    def metrics(self) -> EngineMetrics: ...
    async def wait_loaded(self) -> None: ...
    async def close(self) -> None: ...


@dataclass(eq=False, slots=True)
class _Turn:
    """A request that waits for its model."""

    model: str
    granted: asyncio.Future[HostedEngine]


@dataclass(slots=True)
class Counts:
    """Requests since the start, those that run now and those that wait for their model; loads of models."""

    requests: int = 0
    running: int = 0
    waiting: int = 0
    loads: int = 0


@dataclass(frozen=True, slots=True)
class _Failure:
    model: str
    error: HearthError
    when: float


@dataclass(slots=True)
class _Loaded:
    model: str
    engine: HostedEngine
    stale: bool = False  # failed, or loaded in another way than is wished by now


class ModelHost:
    """Implements `engine.service.served.Served`: gives each request the engine of its model.

    Used on one event loop.

    Requests are granted in order: one for another model waits until those that run have ended, and later
    ones wait behind it, so that two models in turn cannot starve each other. The old model is freed before
    the new one is read: there is never more than one in memory.

    open_model: finds a model by name and starts to load it, with so many threads. Raises HearthError.
    known_models: the models on this machine, the given one, which is in use, among them.
    default: the model of requests that name none, when none is in memory.
    threads: 0 takes one for each physical core.
    idle_seconds: the model is let go after so long without a request; 0 keeps it.
    max_waiting: so many requests may wait for their model; those beyond raise EngineBusy.
    """

    def __init__(
        self,
        open_model: Callable[[str, int], Awaitable[HostedEngine]],
        known_models: Callable[[str], Awaitable[Sequence[ServedModel]]],
        *,
        default: str,
        idle_seconds: float,
        threads: int = 0,
        max_waiting: int = MAX_REQUESTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_model = open_model
        self._known_models = known_models
        self._default = default
        self._idle_seconds = idle_seconds
        self._threads = threads
        self._max_waiting = max_waiting
        self._clock = clock
        self._loaded: _Loaded | None = None
        self._loading = ""
        self._failure: _Failure | None = None
        self._turns: deque[_Turn] = deque()
        self._running = 0
        self._switching: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False
        self._requests = 0
        self._loads = 0

    @property
    def model(self) -> str:
        """The model in memory, on its way there, or else the one that a request without a name would get."""
        if self._loading:
            return self._loading
        return self._loaded.model if self._loaded is not None else self._default

    @property
    def counts(self) -> Counts:
        return Counts(self._requests, self._running, len(self._turns), self._loads)

    def infill(self, request: InfillRequest, model: str = "") -> AsyncGenerator[TextDelta, None]:
        """As `engine.client.EngineClient.infill`, by the model of that name."""
        return self._stream(model, request, lambda engine, left: engine.infill(left))

    def complete(self, request: CompletionRequest, model: str = "") -> AsyncGenerator[TextDelta, None]:
        """Continue a text as it is."""
        return self._stream(model, request, lambda engine, left: engine.complete(left))

    def chat(self, request: ChatRequest, model: str = "") -> AsyncGenerator[ChatDelta, None]:
        """As `engine.client.EngineClient.chat`, by the model of that name."""
        return self._stream(model, request, lambda engine, left: engine.chat(left))

    async def warm(self, request: InfillRequest, model: str = "") -> None:
        """Prefill the request's prompt."""
        left = self._countdown(request)
        async with self._use(model, timeout_s=request.timeout_s) as loaded:
            await self._watched(loaded, loaded.engine.warm(left()))

    async def models(self) -> Sequence[ServedModel]:
        """The models that requests may name; loads nothing."""
        return await self._known_models(self.model)

    async def tokenize(self, text: str, *, special: bool = False, model: str = "") -> list[int]:
        """Token ids; special: whether the spelling of a special token means it."""
        async with self._use(model) as loaded:
            return await self._watched(loaded, loaded.engine.tokenize(text, special=special))

    async def detokenize(self, ids: Sequence[int], *, model: str = "") -> str:
        """The text of tokens; bytes that are no UTF-8 become U+FFFD."""
        async with self._use(model) as loaded:
            return await self._watched(loaded, loaded.engine.detokenize(list(ids)))

    async def count_tokens(self, request: ChatRequest, model: str = "") -> int:
        """The length of a chat's prompt."""
        async with self._use(model) as loaded:
            return await self._watched(loaded, loaded.engine.count_tokens(request))

    async def embed(self, texts: Sequence[str], model: str = "") -> Embeddings:
        """A vector for each text."""
        async with self._use(model) as loaded:
            return await self._watched(loaded, loaded.engine.embed(texts))

    async def load(self, model: str = "", threads: int = 0) -> None:
        """Return once the model is in memory. Raises HearthError with the reason when it cannot be.

        threads: from now on, for every model; 0 leaves it as it is.
        """
        if threads not in (0, self._threads):
            self._threads = threads
            if self._loaded is not None:
                self._loaded.stale = True
        async with self._use(model, counted=False):
            pass

    async def status(self, model: str = "") -> EngineStatus:  # noqa: ARG002
        """What is in memory; loads nothing."""
        if self._closed:
            raise _ended()
        if self._loaded is not None and not self._loaded.stale:
            return await self._loaded.engine.status()
        if self._loading:
            return EngineStatus("loading", self._loading, message=f"Loading {self._loading}.")
        if self._failure is not None:
            return EngineStatus("failed", self._failure.model, message=str(self._failure.error))
        return EngineStatus("unloaded", self.model, message="The next request loads the model.")

    def metrics(self) -> EngineMetrics | None:
        """Counts and sizes of the engine in memory; None while there is none."""
        return self._loaded.engine.metrics() if self._loaded is not None else None

    def refuse(self) -> None:
        """Take no request any more, nor those that still wait for their model; what runs goes on."""
        self._closed = True
        self._disarm()
        for turn in self._turns:
            if not turn.granted.done():
                turn.granted.set_exception(_ended())
        self._turns.clear()

    async def close(self) -> None:
        """End every request with EngineUnavailable and free the model."""
        self.refuse()
        if self._switching is not None:
            self._switching.cancel()
            await asyncio.wait({self._switching})
        await self._free()
        if self._ending:
            await asyncio.wait(self._ending)

    @asynccontextmanager
    async def _use(
        self, model: str, *, counted: bool = True, timeout_s: float | None = None
    ) -> AsyncIterator[_Loaded]:
        """The engine of that model, for as long as the block runs.

        timeout_s: how long to wait for it; DeadlineExceeded after.
        """
        if self._closed:
            raise _ended()
        turn = _Turn(model or self.model, asyncio.get_running_loop().create_future())
        failure = self._failure
        if failure and failure.model == turn.model and self._clock() - failure.when < RETRY_SECONDS:
            raise failure.error.again()
        if counted and len(self._turns) >= self._max_waiting:
            raise EngineBusy(
                f"{len(self._turns)} requests already wait for their model to be loaded.",
                meaning="This one was not started.",
                action="Try again when it is.",
                retry_after=RETRY_SECONDS,
            )
        self._requests += counted
        self._turns.append(turn)
        self._advance()
        try:
            async with asyncio.timeout(timeout_s):
                await self._granted(turn)
        except TimeoutError:
            raise DeadlineExceeded(
                f"The model was not in memory within the {timeout_s:.3g} s that the request had.",
                action="Try again when it is loaded, or give it more time.",
            ) from None
        try:
            assert self._loaded is not None  # noqa: S101 - it is not exchanged while a request runs
            yield self._loaded
        finally:
            self._running -= 1
            self._advance()

    async def _granted(self, turn: _Turn) -> None:
        try:
            await turn.granted
        except asyncio.CancelledError:
            if turn in self._turns:
                self._turns.remove(turn)
            elif turn.granted.done() and not turn.granted.cancelled() and not turn.granted.exception():
                self._running -= 1
            self._advance()
            raise

    async def _stream(
        self,
        model: str,
        request: Request,
        start: Callable[[HostedEngine, Request], AsyncGenerator[Delta, None]],
    ) -> AsyncGenerator[Delta, None]:
        left = self._countdown(request)
        async with (
            self._use(model, timeout_s=request.timeout_s) as loaded,
            aclosing(start(loaded.engine, left())) as stream,
        ):
            try:
                async for delta in stream:
                    yield delta
            except HearthError:
                await self._check(loaded)
                raise

    def _countdown(self, request: Request) -> Callable[[], Request]:
        """What gives the request with the time that is left of its own."""
        began, seconds = self._clock(), request.timeout_s
        if seconds is None:
            return lambda: request
        return lambda: replace(request, timeout_s=max(0.0, began + seconds - self._clock()))

    async def _watched(self, loaded: _Loaded, work: Awaitable[Result]) -> Result:
        try:
            return await work
        except HearthError:
            await self._check(loaded)
            raise

    async def _check(self, loaded: _Loaded) -> None:
        """An engine that has failed does not come back; the next request loads the model anew."""
        try:
            if (await loaded.engine.status()).state == "failed":
                loaded.stale = True
        except HearthError:
            loaded.stale = True

    def _advance(self) -> None:
        """Grant what can be granted now; called after everything that may change that."""
        self._disarm()
        while self._turns and self._switching is None:
            turn, loaded = self._turns[0], self._loaded
            if turn.granted.done():  # cancelled; its task has not run since
                self._turns.popleft()
            elif loaded is not None and loaded.model == turn.model and not loaded.stale:
                self._turns.popleft()
                self._running += 1
                turn.granted.set_result(loaded.engine)
            elif self._running == 0:
                self._switching = asyncio.create_task(self._switch(turn.model))
            else:
                return
        if self._loaded is not None and not self._running and not self._turns and not self._closed:
            self._arm()

    async def _switch(self, model: str) -> None:
        self._loading, self._failure = model, None
        engine: HostedEngine | None = None
        try:
            await self._free()
            log.info("loading a model")
            engine = await self._open_model(model, self._threads)
            await engine.wait_loaded()
        except asyncio.CancelledError:
            if engine is not None:
                await self._end(engine)
            raise
        except HearthError as error:
            await self._refuse(model, engine, error)
        except Exception as error:
            log.exception("a model could not be loaded")
            words = EngineUnavailable(
                f"The model could not be loaded because of a fault inside Hearth ({type(error).__name__}).",
                action="Run `hearth logs`; report it if it happens again.",
            )
            await self._refuse(model, engine, words)
        else:
            self._loads += 1
            self._loaded = _Loaded(model, engine)
            log.info("the model is loaded")
        finally:
            self._loading = ""
            self._switching = None
            self._advance()

    async def _refuse(self, model: str, engine: HostedEngine | None, error: HearthError) -> None:
        log.warning("a model could not be loaded (%s)", error.code)
        if engine is not None:
            await self._end(engine)
        self._failure = _Failure(model, error, self._clock())
        for turn in [turn for turn in self._turns if turn.model == model]:
            self._turns.remove(turn)
            if not turn.granted.done():
                turn.granted.set_exception(error.again())

    async def _free(self) -> None:
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            await self._end(loaded.engine)

    async def _end(self, engine: HostedEngine) -> None:
        """Free an engine, wholly even where the caller is cancelled meanwhile; `close` waits for it."""
        ending = asyncio.create_task(engine.close())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        await asyncio.shield(ending)

    def _arm(self) -> None:
        if self._idle_seconds > 0:
            self._idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._let_go)

    def _disarm(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _let_go(self) -> None:
        log.info("the model is let go after %s s without a request", self._idle_seconds)
        self._switching = asyncio.create_task(self._unload())

    async def _unload(self) -> None:
        try:
            await self._free()
        finally:
            self._switching = None
            self._advance()


def _ended() -> EngineUnavailable:
    return EngineUnavailable("The engine is shutting down.", action="Try again in a moment.")
