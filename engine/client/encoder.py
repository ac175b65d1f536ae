"""An engine whose model makes vectors of texts alone: asyncio on one side, a thread on the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import NoReturn, TypeVar

from engine.backends.choose import load_encoder
from engine.backends.llama_cpp_encoder import LlamaCppEncoder
from engine.errors import EngineUnavailable, HearthError, RequestError
from engine.generation.embedding import Embeddings, EmbeddingTurns, TextIds
from engine.generation.metrics import EngineMetrics
from engine.generation.pooling import normalised
from engine.types import ChatDelta, ChatRequest, CompletionRequest, EngineStatus, InfillRequest, TextDelta

Result = TypeVar("Result")


class EncoderEngine:
    """Implements `engine.service.host.HostedEngine` over an encoder.

    load: loads the model; called on the engine thread, which starts at once. It is given what tells whether
        to give up.
    """

    def __init__(self, model_name: str, load: Callable[[Callable[[], bool]], LlamaCppEncoder]) -> None:
        self._model_name = model_name
        self._stopped = Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hearth-engine")
        self._loading = self._thread.submit(load, self._stopped.is_set)
        # One call at a time, so that cancelling it stops no other.
        self._turns = EmbeddingTurns(at_once=1)
        self._failure: HearthError | None = None
        self._closed = False

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """A vector for each text, pooled as the model's file says.

        Raises RequestError (PromptTooLong) for what cannot be embedded, EngineBusy, EngineUnavailable.
        """
        model = self._model()
        async with self._turns.turn():
            ids = TextIds(model.tokenize, model.context_tokens)
            texts_ids = [await self._run(partial(ids.of, text)) for text in texts]
            vectors = [normalised(await self._run(partial(model.embed, tokens))) for tokens in texts_ids]
            return Embeddings(vectors, ids.tokens)

    def infill(self, request: InfillRequest) -> AsyncGenerator[TextDelta, None]:  # noqa: ARG002
        """Refused, as everything that makes text is."""
        return self._no_text()

    def complete(self, request: CompletionRequest) -> AsyncGenerator[TextDelta, None]:  # noqa: ARG002
        """Refused."""
        return self._no_text()

    def chat(self, request: ChatRequest) -> AsyncGenerator[ChatDelta, None]:  # noqa: ARG002
        """Refused."""
        return self._no_text()

    async def warm(self, request: InfillRequest) -> None:  # noqa: ARG002
        """Refused."""
        raise self._refusal()

    async def tokenize(self, text: str, *, special: bool = False) -> list[int]:  # noqa: ARG002
        """Refused."""
        raise self._refusal()

    async def detokenize(self, ids: Sequence[int]) -> str:  # noqa: ARG002
        """Refused."""
        raise self._refusal()

    async def count_tokens(self, request: ChatRequest) -> int:  # noqa: ARG002
        """Refused."""
        raise self._refusal()

    async def status(self) -> EngineStatus:
        """The engine's state. Raises EngineUnavailable once closed."""
        if self._closed:
            raise _ended()
        if self._failure is not None:
            return EngineStatus("failed", self._model_name, message=str(self._failure))
        if not self._loading.done():
            return EngineStatus("loading", self._model_name, message=f"Loading {self._model_name}.")
        model = self._model()
        return EngineStatus(
            state="busy" if self._turns.calls else "ready",
            model=model.name,
            kernels=model.kernels,
            threads=model.threads,
            context_tokens=model.context_tokens,
        )

    def metrics(self) -> EngineMetrics:
        """All zero: there are neither tokens drawn nor a KV cache."""
        return EngineMetrics()

    async def wait_loaded(self) -> None:
        """Return once the model runs. Raises HearthError, with the reason, when it does not."""
        try:
            await asyncio.shield(asyncio.wrap_future(self._loading))
        except InterruptedError:
            raise _ended() from None
        except HearthError as error:
            self._failure = error
            raise error.again() from None

    async def close(self) -> None:
        """Stop what runs and free the model. Later calls raise EngineUnavailable."""
        if not self._closed:
            self._closed = True
            self._stopped.set()
            if self._is_loaded():
                self._loading.result().cancel()
            self._thread.submit(self._free)
        await asyncio.to_thread(self._thread.shutdown)

    def _free(self) -> None:
        if self._is_loaded():
            self._loading.result().close()

    def _is_loaded(self) -> bool:
        return self._loading.done() and self._loading.exception() is None

    def _model(self) -> LlamaCppEncoder:
        if self._closed:
            raise _ended()
        if not self._loading.done():
            raise EngineUnavailable("The model is still loading.", action="Try again in a moment.")
        if self._failure is not None:
            raise self._failure.again()
        return self._loading.result()

    async def _run(self, work: Callable[[], Result]) -> Result:
        """Run on the engine thread. When this is cancelled, it stops the work and waits for its end."""
        model = self._model()
        running = asyncio.wrap_future(self._thread.submit(work))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            model.cancel()
            await asyncio.wait({running})
            running.exception()  # nobody else looks at it
            raise
        except InterruptedError:
            raise _ended() from None
        except EngineUnavailable as error:
            self._failure = error
            raise

    async def _no_text(self) -> AsyncGenerator[NoReturn, None]:
        raise self._refusal()
        yield

    def _refusal(self) -> RequestError:
        return RequestError(
            f"{self._model_name} makes vectors of texts (embeddings) and writes no text.",
            action="Name another model for completions and chats.",
        )


def _ended() -> EngineUnavailable:
    return EngineUnavailable("The engine was shut down.", action="Try again in a moment.")


def open_encoder(model_path: Path, *, threads: int | None, context_tokens: int | None) -> EncoderEngine:
    """Start loading an embedding model and return at once; arguments as of `in_process.open_in_process`."""

    def load(cancelled: Callable[[], bool]) -> LlamaCppEncoder:
        return load_encoder(model_path, threads=threads, context_tokens=context_tokens, cancelled=cancelled)

    return EncoderEngine(model_path.stem, load)
