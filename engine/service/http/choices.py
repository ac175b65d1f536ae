"""Several generations of one request, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeVar

from engine.errors import EngineUnavailable
from engine.service.http.answers import ended_early
from engine.types import ChatDelta, FinishReason, TextDelta, Timing, TokenLogprob, ToolCallDelta

Delta = TypeVar("Delta", TextDelta, ChatDelta)


async def whole(stream: AsyncGenerator[Delta, None]) -> AsyncGenerator[Delta, None]:
    """A stream up to its last piece. Raises EngineUnavailable when that is missing, or says "cancelled"."""
    async with aclosing(stream):
        async for delta in stream:
            if delta.finish is FinishReason.CANCELLED:
                raise EngineUnavailable("The engine cancelled the request.", action="Try again.")
            yield delta
            if delta.finish is not None:
                return
    raise ended_early()


async def side_by_side(
    streams: Sequence[AsyncGenerator[Delta, None]],
) -> AsyncGenerator[tuple[int, Delta], None]:
    """The pieces of all streams as they come, each with its stream's index.

    The first failure ends them all and is raised; so does closing this generator.
    """
    if len(streams) == 1:
        async with aclosing(whole(streams[0])) as only:
            async for delta in only:
                yield 0, delta
        return
    arrived: asyncio.Queue[tuple[int, Delta] | asyncio.Task[None]] = asyncio.Queue()

    async def pump(index: int, stream: AsyncGenerator[Delta, None]) -> None:
        async with aclosing(whole(stream)) as pieces:
            async for delta in pieces:
                arrived.put_nowait((index, delta))

    tasks = [asyncio.create_task(pump(index, stream)) for index, stream in enumerate(streams)]
    for task in tasks:
        task.add_done_callback(arrived.put_nowait)
    try:
        running = len(tasks)
        while running:
            piece = await arrived.get()
            if isinstance(piece, asyncio.Task):
                running -= 1
                piece.result()
            else:
                yield piece
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Usage:
    """Token counts of one request, over its choices."""

    def __init__(self) -> None:
        self.prompt = 0
        self.cached = 0
        self.generated = 0
        self.reasoning = 0

    def add(self, delta: TextDelta | ChatDelta, *, first_of_prompt: bool = True) -> None:
        """first_of_prompt: whether the prompt counts, which several choices share."""
        if isinstance(delta, ChatDelta) and delta.reasoning:
            self.reasoning += delta.tokens
        # The first piece has a timing too.
        if delta.finish is not None and delta.timing is not None:
            self._add_timing(delta.timing, first_of_prompt)

    def _add_timing(self, timing: Timing, first_of_prompt: bool) -> None:
        self.generated += timing.generated_tokens
        if first_of_prompt:
            self.prompt += timing.prompt_tokens
            self.cached += timing.cached_tokens

    def openai(self) -> dict[str, object]:
        """As in OpenAI's completions and chats."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.generated,
            "total_tokens": self.prompt + self.generated,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        }


@dataclass(slots=True)
class Gathered:
    """A message put together from its pieces."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, ToolCallDelta] = field(default_factory=dict)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    last: ChatDelta = field(default_factory=ChatDelta)

    def add(self, delta: ChatDelta) -> None:
        self.text.append(delta.text)
        self.reasoning.append(delta.reasoning)
        self.logprobs.extend(delta.logprobs)
        for piece in delta.tool_calls:
            have = self.calls.get(piece.index, ToolCallDelta(piece.index))
            self.calls[piece.index] = ToolCallDelta(
                piece.index, have.id or piece.id, have.name or piece.name, have.arguments + piece.arguments
            )
        self.last = delta
