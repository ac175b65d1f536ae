"""The engine inside the caller's own process: asyncio on one side, the engine thread on the other."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import aclosing, suppress
from pathlib import Path
from threading import Event
from typing import TypeVar

from engine.backends.choose import load_backend
from engine.backends.native import open_gguf
from engine.errors import HearthError, PromptTooLong, RequestError
from engine.generation.disk_tier import DISK, DiskRoom, open_disk_tier
from engine.generation.embedding import Embeddings, EmbeddingTurns, TextIds, embed_texts
from engine.generation.metrics import EngineMetrics
from engine.generation.prompting import Delta, Prompt
from engine.generation.scheduler import MAX_REQUESTS
from engine.generation.sequence import Event as SequenceEvent
from engine.generation.sequence import Sequence as Request
from engine.generation.speed import PromptBudget
from engine.generation.text import TextPrompting
from engine.generation.thread import EngineThread, LoadedModel
from engine.types import (
    ChatDelta,
    ChatRequest,
    CompletionRequest,
    EngineStatus,
    InfillRequest,
    Priority,
    TextDelta,
)

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Delivered = TypeVar("Delivered")

# How long a closed stream waits for the engine to let go; one token or one layer is enough, but on a
# machine that swaps the editor must not hang.
RELEASE_SECONDS = 5.0

# The part of the window that prompts chosen by the engine leave to generation.
RESERVED_TOKENS = 256


class InProcessEngine:
    """Implements `engine.client.EngineClient` over an engine thread of this process.

    model_name: shown in the status.
    load: loads the model; called on the engine thread, which starts at once.
    max_requests, stop_loading: see `Scheduler` and `EngineThread`.
    """

    def __init__(
        self,
        model_name: str,
        load: Callable[[], LoadedModel],
        max_requests: int = MAX_REQUESTS,
        stop_loading: Callable[[], None] = lambda: None,
    ) -> None:
        self._model_name = model_name
        self._thread = EngineThread(load, max_requests, stop_loading)
        # One worker keeps the order of prompts the order of requests; another does what may take longer, lest
        # a schema to be compiled delay a completion.
        self._prompts = ThreadPoolExecutor(1, thread_name_prefix="hearth-prompt")
        self._chat_prompts = ThreadPoolExecutor(1, thread_name_prefix="hearth-chat-prompt")
        self._budget: PromptBudget | None = None
        self._embedding = EmbeddingTurns()

    def infill(self, request: InfillRequest) -> AsyncGenerator[TextDelta, None]:
        """Stream the text that belongs between prefix and suffix."""
        return self._stream(
            self._prompts,
            lambda model: self._infill_prompt(model, request),
            max_tokens=request.max_tokens,
            priority=request.priority,
            session=request.session,
            timeout_s=request.timeout_s,
        )

    def complete(self, request: CompletionRequest) -> AsyncGenerator[TextDelta, None]:
        """Stream the continuation of a text."""
        return self._stream(
            self._chat_prompts,
            lambda model: model.prompting.complete(request),
            max_tokens=request.max_tokens,
            priority=request.priority,
            session=request.session and f"complete {request.session}",
            timeout_s=request.timeout_s,
        )

    def chat(self, request: ChatRequest) -> AsyncGenerator[ChatDelta, None]:
        """Stream the assistant's next message."""
        return self._stream(
            self._chat_prompts,
            lambda model: model.prompting.chat(request, model.backend.context_tokens),
            max_tokens=request.max_tokens,
            priority=request.priority,
            # Apart from completions, lest the two replace each other's KV.
            session=request.session and f"chat {request.session}",
            timeout_s=request.timeout_s,
        )

    async def warm(self, request: InfillRequest) -> None:
        """Prefill the request's prompt; a newer `warm` or `infill` of its session ends it early."""
        stream = self._stream(
            self._prompts,
            lambda model: self._infill_prompt(model, request),
            max_tokens=0,
            priority=request.priority,
            session=request.session,
            timeout_s=request.timeout_s,
        )
        async with aclosing(stream):
            async for _ in stream:
                pass

    async def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of a text."""
        return await self._ask(lambda model: model.prompting.tokenize(text, special=special))

    async def detokenize(self, ids: Sequence[int]) -> str:
        """The text of token ids."""
        return await self._ask(lambda model: model.prompting.detokenize(ids))

    async def count_tokens(self, request: ChatRequest) -> int:
        """How many tokens the chat's prompt has."""
        return await self._ask(lambda model: model.prompting.count(request))

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """A vector for each text: the mean of its tokens' states, or what the model's file asks for.

        Raises RequestError (PromptTooLong) for what cannot be embedded, EngineBusy.
        """
        model = self._thread.model()
        states = model.backend.hidden_states
        if states is None:
            raise RequestError(f"{model.backend.name} makes no embeddings.", action="Choose another model.")
        async with self._embedding.turn():
            ids = TextIds(model.prompting.embedding_ids, model.backend.context_tokens)
            loop = asyncio.get_running_loop()
            texts_ids = [await loop.run_in_executor(self._chat_prompts, ids.of, text) for text in texts]
            return Embeddings(await embed_texts(self._thread, texts_ids, states.pooling), ids.tokens)

    async def status(self) -> EngineStatus:
        """The engine's state. Raises EngineUnavailable once closed."""
        thread = self._thread
        state, failure = thread.state(), thread.failure
        if state in ("loading", "failed"):
            message = f"Loading {self._model_name}." if failure is None else str(failure)
            return EngineStatus(state, self._model_name, message=message)
        model = thread.model()
        return EngineStatus(
            state=state,
            model=model.backend.name,
            kernels=model.backend.kernels,
            threads=model.backend.threads,
            context_tokens=model.backend.context_tokens,
            supports_infill=model.prompting.supports_infill,
            tool_format=model.prompting.tool_format,
            thinks=model.prompting.thinks,
            prefill_tps=thread.speed.prefill_tps,
            decode_tps=thread.speed.decode_tps,
        )

    def metrics(self) -> EngineMetrics:
        """Counts and sizes of scheduler and KV cache, as of now."""
        return self._thread.metrics()

    async def wait_loaded(self) -> None:
        """Return once the model runs. Raises the HearthError that it failed with when it does not."""
        await asyncio.to_thread(self._thread.loaded.wait)
        self._thread.model()

    async def close(self) -> None:
        """Stop generation and free the model. Later calls raise EngineUnavailable."""
        await asyncio.to_thread(self._thread.close)
        self._prompts.shutdown(wait=False)
        self._chat_prompts.shutdown(wait=False)

    async def _ask(self, question: Callable[[LoadedModel], Answer]) -> Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._chat_prompts, question, self._thread.model())

    def _infill_prompt(self, model: LoadedModel, request: InfillRequest) -> Prompt[TextDelta]:
        context = model.backend.context_tokens
        budget = request.prompt_budget
        if budget is None:
            if self._budget is None:
                self._budget = PromptBudget(context - RESERVED_TOKENS)
            budget = self._budget.tokens(self._thread.speed.prefill_tps)
        return model.prompting.infill(request, min(budget, context - request.max_tokens))

    async def _stream(
        self,
        prompts: Executor,
        prompt_for: Callable[[LoadedModel], Prompt[Delta]],
        *,
        max_tokens: int,
        priority: Priority,
        session: str,
        timeout_s: float | None,
    ) -> AsyncGenerator[Delta, None]:
        """Run one request; leaving the generator early cancels it and waits until the engine let go."""
        # By the clock of `Runner`.
        deadline = None if timeout_s is None else time.perf_counter() + timeout_s
        model = self._thread.model()
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[HearthError | Delta] = asyncio.Queue()
        prompt = await loop.run_in_executor(prompts, prompt_for, model)
        room = _room(len(prompt.ids), model.backend.context_tokens)

        def emit(event: SequenceEvent) -> None:
            # On the engine thread, so that the output is where the event left it.
            pieces = [event] if isinstance(event, HearthError) else prompt.deltas(event)
            _deliver(loop, events, pieces)

        sequence = Request(
            prompt=prompt.ids,
            max_tokens=min(max_tokens, room),
            priority=priority,
            session=session,
            emit=emit,
            output=prompt.output if max_tokens > 0 else None,
            deadline=deadline,
        )
        self._thread.submit(sequence)
        ended = False
        try:
            while not ended:
                event = await events.get()
                ended = _is_last(event)
                if isinstance(event, HearthError):
                    raise event
                yield event
        finally:
            if not ended:
                self._thread.cancel(sequence)
                await _released(events)


def _room(prompt_tokens: int, context_tokens: int) -> int:
    """How many tokens may follow a prompt. Raises PromptTooLong when it leaves none."""
    room = context_tokens - prompt_tokens
    if room < 1:
        raise PromptTooLong(
            f"The prompt has {prompt_tokens} tokens, {1 - room} too many for the model's window of"
            f" {context_tokens} tokens.",
            action=f"Shorten it by {1 - room} tokens, or load the model with a larger context.",
        )
    return room


def _is_last(event: TextDelta | ChatDelta | HearthError) -> bool:
    return isinstance(event, HearthError) or event.finish is not None


def _deliver(
    loop: asyncio.AbstractEventLoop, events: asyncio.Queue[Delivered], pieces: Iterable[Delivered]
) -> None:
    """From the engine thread into the event loop; once that is closed nobody listens any more."""
    with suppress(RuntimeError):
        for piece in pieces:
            loop.call_soon_threadsafe(events.put_nowait, piece)


async def _released(events: asyncio.Queue[HearthError | Delta]) -> None:
    try:
        async with asyncio.timeout(RELEASE_SECONDS):
            while not _is_last(await events.get()):
                pass
    except TimeoutError:
        log.warning("The engine did not let go of a cancelled request within %s s", RELEASE_SECONDS)


def open_in_process(
    model_path: Path,
    *,
    threads: int | None,
    context_tokens: int | None,
    max_requests: int = MAX_REQUESTS,
    disk: DiskRoom = DISK,
) -> InProcessEngine:
    """Start loading a GGUF file and return at once; the status tells when it runs, or why not.

    threads: None takes one for each physical core.
    context_tokens: the model's window; None takes a default that fits the model and the memory.
    max_requests: see `Scheduler`.
    disk: where the KV cache survives this engine.
    """

    stopped = Event()

    def load() -> LoadedModel:
        gguf = open_gguf(model_path)
        prompting = TextPrompting(gguf)
        backend = load_backend(gguf, threads=threads, context_tokens=context_tokens, cancelled=stopped.is_set)
        return LoadedModel(backend, prompting, open_disk_tier(model_path, backend.kv_pages, disk))

    return InProcessEngine(model_path.stem, load, max_requests, stopped.set)
