"""From the pieces of a streamed chat to ours."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from engine.backends.openai.chunks import CallPiece, ChatChoice, ChatChunk, read_chunk
from engine.backends.openai.ends import finish_of, stop_of
from engine.backends.openai.failures import MalformedAnswer
from engine.backends.openai.logprobs import chat_tokens
from engine.backends.openai.usage import Meter
from engine.types import ChatDelta, ChatRequest, FinishReason, ToolCallDelta

_MOST_CALLS = 128


async def chat_deltas(
    events: AsyncGenerator[dict[str, Any], None], request: ChatRequest, meter: Meter
) -> AsyncGenerator[ChatDelta, None]:
    """The message while it is written; the last piece has finish and timing. Raises MalformedAnswer."""
    calls = _Calls()
    end: ChatChoice | None = None
    async with aclosing(events):
        async for event in events:
            chunk = read_chunk(ChatChunk, event)
            meter.saw(chunk.usage)
            for choice in chunk.choices:
                if end is not None:
                    raise MalformedAnswer("its answer goes on after its end")
                delta = _delta(choice, calls, meter)
                if delta is not None:
                    yield delta
                if choice.finish_reason is not None:
                    end = choice
    if end is None or end.finish_reason is None:
        raise MalformedAnswer("its answer has no finish_reason")
    finish = calls.finish(finish_of(end.finish_reason))
    yield ChatDelta(
        tool_calls=calls.without_arguments() if finish is FinishReason.TOOL_CALLS else (),
        tokens=meter.rest(),
        finish=finish,
        timing=meter.timing(),
        stop=stop_of(end, request.stop),
    )


def _delta(choice: ChatChoice, calls: _Calls, meter: Meter) -> ChatDelta | None:
    """None for a piece that says nothing, as the first often does."""
    delta = choice.delta
    text = delta.content or ""
    reasoning = delta.reasoning or delta.reasoning_content or ""
    pieces = tuple(piece for call in delta.tool_calls or () if (piece := calls.add(call)) is not None)
    listed = choice.logprobs.content if choice.logprobs is not None else None
    # Log probabilities cover content alone, as our own do.
    logprobs = chat_tokens(listed) if listed and text else ()
    if not (text or reasoning or pieces):
        return None
    tokens, timing = meter.piece(len(logprobs) or 1)
    return ChatDelta(text, reasoning, pieces, tokens, logprobs, timing=timing)


class _Calls:
    """The calls of one message: each begins with its name, and they come one after another."""

    def __init__(self) -> None:
        self._arguments: list[list[str]] = []

    def add(self, piece: CallPiece) -> ToolCallDelta | None:
        """Raises MalformedAnswer for a call without a name, or out of order."""
        name = piece.function.name if piece.function is not None else None
        arguments = (piece.function.arguments if piece.function is not None else None) or ""
        if 0 <= piece.index < len(self._arguments):
            self._arguments[piece.index].append(arguments)
            return ToolCallDelta(piece.index, arguments=arguments) if arguments else None
        if piece.index != len(self._arguments) or len(self._arguments) == _MOST_CALLS:
            raise MalformedAnswer("its tool calls are not in order, or too many")
        if not name:
            raise MalformedAnswer("a tool call of it has no name")
        self._arguments.append([arguments])
        return ToolCallDelta(piece.index, piece.id or f"call_{uuid.uuid4().hex}", name, arguments)

    def finish(self, said: FinishReason) -> FinishReason:
        """The reason with the promise that TOOL_CALLS makes: all calls are whole.

        Some servers say "stop" after a call that was asked for by name. Raises MalformedAnswer when a call
        that is said to be whole is not: a part of one must never run.
        """
        if said is FinishReason.TOOL_CALLS and not self._arguments:
            return FinishReason.STOP
        if said is FinishReason.LENGTH or not self._arguments:
            return said
        for arguments in self._arguments:
            try:
                whole = isinstance(json.loads("".join(arguments) or "{}"), dict)
            except (ValueError, RecursionError):
                whole = False
            if not whole:
                raise MalformedAnswer("a tool call of it is not whole")
        return FinishReason.TOOL_CALLS

    def without_arguments(self) -> tuple[ToolCallDelta, ...]:
        """What makes JSON of calls for which the server wrote nothing, as some do for no arguments."""
        return tuple(
            ToolCallDelta(index, arguments="{}")
            for index, arguments in enumerate(self._arguments)
            if not "".join(arguments)
        )
