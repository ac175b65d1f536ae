"""Vectors of texts, beside completions and chats: each text is a request of the lowest priority."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.backends.pooling import Pooling
from engine.errors import EngineBusy, HearthError, PromptTooLong, RequestError
from engine.generation.pooling import PooledText
from engine.generation.sequence import Event
from engine.generation.sequence import Sequence as Request
from engine.generation.thread import EngineThread
from engine.types import Priority

# Texts of one call on the engine thread at a time: enough short ones for a step that is worth it, and few
# enough that, when they starve beside completions, most steps of those are without them.
TEXTS_AT_ONCE = 4

# Calls that run, and those that run or wait for it; a further one is told to come back later.
CALLS_AT_ONCE = 2
MAX_CALLS = 64
RETRY_SECONDS = 5.0

# Cutting megabytes into tokens takes minutes. So of a long text first so many characters for each token of
# the window are looked at, then twice as many, until they are too many tokens or all of it.
FIRST_PART = 8

# Tokens of all texts of one call, as in OpenAI's API.
MAX_TOKENS = 300_000

# How long an abandoned call waits for the engine to let go of its texts.
RELEASE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Embeddings:
    """vectors: one for each text, shape (embedding,), of Euclidean length 1 (a remote's: as it gives them).

    tokens: of all texts.
    """

    vectors: Sequence[NDArray[np.float32]]
    tokens: int


class TextIds:
    """Token ids of the texts of one call, in order, within what it may have.

    encode: token ids of a text. window: the longest text.
    tokens: of all texts so far.
    """

    def __init__(self, encode: Callable[[str], ArrayLike], window: int) -> None:
        self._encode = encode
        self._window = window
        self._texts = 0
        self.tokens = 0

    def of(self, text: str) -> NDArray[np.int32]:
        """The next text's ids, shape (n,). To be called beside the event loop, for it may take long.

        Raises PromptTooLong for a text beyond the window, RequestError for an empty one or too many tokens.
        """
        index, self._texts = self._texts, self._texts + 1
        part = FIRST_PART * self._window
        while part < len(text):
            if (count := len(self._ids(text[:part]))) > self._window:
                raise self._too_long(index, count * len(text) // part, "about ")
            part *= 2
        ids = self._ids(text)
        self.tokens += len(ids)
        if not text or not len(ids):
            raise RequestError(f"The text at index {index} is empty.", action="Leave it out.")
        if len(ids) > self._window:
            raise self._too_long(index, len(ids))
        if self.tokens > MAX_TOKENS:
            raise RequestError(
                f"The texts up to index {index} have {self.tokens} tokens; one call may have {MAX_TOKENS}.",
                action="Send the texts in several calls.",
            )
        return ids

    def _ids(self, text: str) -> NDArray[np.int32]:
        return np.array(self._encode(text), np.int32)

    def _too_long(self, index: int, tokens: int, about: str = "") -> PromptTooLong:
        return PromptTooLong(
            f"The text at index {index} has {about}{tokens} tokens, {about}{tokens - self._window} too many"
            f" for the model's window of {self._window} tokens.",
            action="Cut it into shorter pieces.",
        )


class EmbeddingTurns:
    """Lets few calls on the engine thread at a time, so that they leave room in its queue; others wait.

    calls: how many run or wait.
    """

    def __init__(self, at_once: int = CALLS_AT_ONCE) -> None:
        self._free = asyncio.Semaphore(at_once)
        self.calls = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Raises EngineBusy when too many calls wait already."""
        if self.calls >= MAX_CALLS:
            raise EngineBusy(
                f"The engine already has {self.calls} calls for embeddings.",
                meaning="This one was not started.",
                action="Try again when some of them have ended.",
                retry_after=RETRY_SECONDS,
            )
        self.calls += 1
        try:
            async with self._free:
                yield
        finally:
            self.calls -= 1


async def embed_texts(
    thread: EngineThread, texts: Sequence[NDArray[np.int32]], pooling: Pooling
) -> list[NDArray[np.float32]]:
    """The vectors of texts given as token ids. Cancelling it ends what it has on the engine thread.

    Raises HearthError, which ends the other texts too.
    """
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
    waiting = deque(enumerate(texts))
    running: dict[int, tuple[Request, PooledText]] = {}
    vectors: dict[int, NDArray[np.float32]] = {}
    at_once = TEXTS_AT_ONCE

    def submit(index: int, ids: NDArray[np.int32]) -> None:
        def emit(event: Event) -> None:
            with suppress(RuntimeError):  # the loop is closed, so nobody listens any more
                loop.call_soon_threadsafe(events.put_nowait, (index, event))

        pooled = PooledText(pooling)
        request = Request(tuple(ids.tolist()), 0, Priority.BACKGROUND, "", emit, pooled=pooled)
        thread.submit(request)
        running[index] = request, pooled

    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                submit(*waiting.popleft())
            index, event = await events.get()
            _, pooled = running.pop(index)
            if isinstance(event, EngineBusy) and running:  # its queue is short, or full of others
                at_once = len(running)
                waiting.appendleft((index, texts[index]))
                continue
            if isinstance(event, HearthError):
                raise event
            vectors[index] = pooled.vector()
    finally:
        for request, _ in running.values():
            thread.cancel(request)
        with suppress(TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                while running:
                    running.pop((await events.get())[0])
    return [vectors[index] for index in range(len(texts))]
