"""The engine inside the caller's own process: asyncio on one side, the engine thread on the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TypeVar

from engine.backends.choose import load_backend
from engine.backends.native import open_gguf
from engine.errors import HearthError, RequestError
from engine.generation.prompting import Prompt, Prompting
from engine.generation.sequence import Event, Sequence
from engine.generation.speed import PromptBudget
from engine.generation.text import TextPrompting
from engine.generation.thread import EngineThread, LoadedModel
from engine.tokenizer import Tokenizer
from engine.types import ChatRequest, EngineStatus, InfillRequest, Priority, TextDelta

log = logging.getLogger(__name__)

Result = TypeVar("Result")

# How long a closed stream waits for the engine to let go; one token or one layer is enough, but on a
# machine that swaps the editor must not hang.
RELEASE_SECONDS = 5.0

# The part of the window that prompts chosen by the engine leave to generation.
RESERVED_TOKENS = 256


class InProcessEngine:
    """Implements `engine.client.EngineClient` over an engine thread of this process.

    model_name: shown in the status.
    load: loads the model; called on the engine thread, which starts at once.
    """

    def __init__(self, model_name: str, load: Callable[[], LoadedModel]) -> None:
        self._model_name = model_name
        self._thread = EngineThread(load)
        # One worker keeps the order of prompts the order of requests.
        self._prompts = ThreadPoolExecutor(1, thread_name_prefix="hearth-prompt")
        self._budget: PromptBudget | None = None

    def infill(self, request: InfillRequest) -> AsyncGenerator[TextDelta, None]:
        """Stream the text that belongs between prefix and suffix."""
        return self._stream(
            lambda model: self._infill_prompt(model, request),
            max_tokens=request.max_tokens,
            priority=request.priority,
            session=request.session,
        )

    def chat(self, request: ChatRequest) -> AsyncGenerator[TextDelta, None]:
        """Stream the assistant's next message."""
        return self._stream(
            lambda model: model.prompting.chat(request),
            max_tokens=request.max_tokens,
            priority=request.priority,
            # Apart from completions, lest the two replace each other's KV.
            session=request.session and f"chat {request.session}",
        )

    async def warm(self, request: InfillRequest) -> None:
        """Prefill the request's prompt; a newer `warm` or `infill` of its session ends it early."""
        stream = self._stream(
            lambda model: self._infill_prompt(model, request),
            max_tokens=0,
            priority=request.priority,
            session=request.session,
        )
        async with aclosing(stream):
            async for _ in stream:
                pass

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
            prefill_tps=thread.speed.prefill_tps,
            decode_tps=thread.speed.decode_tps,
        )

    async def wait_loaded(self) -> None:
        """Return once the model runs. Raises EngineUnavailable, with the reason, when it does not."""
        await asyncio.to_thread(self._thread.loaded.wait)
        self._thread.model()

    async def close(self) -> None:
        """Stop generation and free the model. Later calls raise EngineUnavailable."""
        await asyncio.to_thread(self._thread.close)
        self._prompts.shutdown(wait=False)

    def _infill_prompt(self, model: LoadedModel, request: InfillRequest) -> Prompt:
        context = model.backend.context_tokens
        budget = request.prompt_budget
        if budget is None:
            if self._budget is None:
                self._budget = PromptBudget(context - RESERVED_TOKENS)
            budget = self._budget.tokens(self._thread.speed.prefill_tps)
        return model.prompting.infill(request, min(budget, context - request.max_tokens))

    async def _stream(
        self,
        prompt_for: Callable[[LoadedModel], Prompt],
        *,
        max_tokens: int,
        priority: Priority,
        session: str,
    ) -> AsyncGenerator[TextDelta, None]:
        """Run one request; leaving the generator early cancels it and waits until the engine let go."""
        model = self._thread.model()
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event] = asyncio.Queue()
        prompt = await loop.run_in_executor(self._prompts, prompt_for, model)
        # What the window still holds; a prompt that leaves nothing is refused by the runner.
        room = max(1, model.backend.context_tokens - len(prompt.ids))
        sequence = Sequence(
            prompt=prompt.ids,
            max_tokens=min(max_tokens, room),
            priority=priority,
            session=session,
            emit=lambda event: _deliver(loop, events, event),
            output=prompt.output if max_tokens > 0 else None,
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

    async def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids; special: whether the spelling of a control token means it. Raises EngineUnavailable."""
        return await self._text_work(lambda prompting: prompting.tokenizer.encode(text, special=special))

    async def detokenize(self, ids: list[int]) -> str:
        """The text of tokens; bytes that are no UTF-8 become U+FFFD. Raises RequestError."""
        return await self._text_work(lambda prompting: _decode(prompting.tokenizer, ids))

    async def count_tokens(self, request: ChatRequest) -> int:
        """The length of a chat's prompt. Raises RequestError, EngineUnavailable."""
        return await self._text_work(lambda prompting: len(prompting.chat(request).ids))

    async def _text_work(self, work: Callable[[Prompting], Result]) -> Result:
        """What needs the model's text side only, on the thread that makes the prompts."""
        model = self._thread.model()
        return await asyncio.get_running_loop().run_in_executor(self._prompts, work, model.prompting)


def _is_last(event: Event) -> bool:
    return isinstance(event, HearthError) or event.finish is not None


def _deliver(loop: asyncio.AbstractEventLoop, events: asyncio.Queue[Event], event: Event) -> None:
    """From the engine thread into the event loop; once that is closed nobody listens any more."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(events.put_nowait, event)


def _decode(tokenizer: Tokenizer, ids: list[int]) -> str:
    for token in ids:
        if not 0 <= token < tokenizer.vocab_size:
            raise RequestError(f"{token} is no token: the vocabulary has {tokenizer.vocab_size}.")
    return tokenizer.decode(ids)


async def _released(events: asyncio.Queue[Event]) -> None:
    try:
        async with asyncio.timeout(RELEASE_SECONDS):
            while not _is_last(await events.get()):
                pass
    except TimeoutError:
        log.warning("The engine did not let go of a cancelled request within %s s", RELEASE_SECONDS)


def open_in_process(model_path: Path, *, threads: int | None, context_tokens: int | None) -> InProcessEngine:
    """Start loading a GGUF file and return at once; the status tells when it runs, or why not.

    threads: None takes one for each physical core.
    context_tokens: the model's window; None takes a default that fits the model and the memory.
    """

    def load() -> LoadedModel:
        gguf = open_gguf(model_path)
        prompting = TextPrompting(gguf)
        return LoadedModel(load_backend(gguf, threads=threads, context_tokens=context_tokens), prompting)

    return InProcessEngine(model_path.stem, load)
