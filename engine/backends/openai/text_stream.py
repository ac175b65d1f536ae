"""From the pieces of a streamed completion to ours."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from engine.backends.openai.chunks import TextChoice, TextChunk, read_chunk
from engine.backends.openai.ends import finish_of, stop_of
from engine.backends.openai.failures import MalformedAnswer
from engine.backends.openai.logprobs import text_tokens
from engine.backends.openai.usage import Meter
from engine.types import FinishReason, TextDelta


async def text_deltas(
    events: AsyncGenerator[dict[str, Any], None], stops: Sequence[str], meter: Meter, *, listed: bool
) -> AsyncGenerator[TextDelta, None]:
    """The text while it is written; the last piece has finish and timing.

    listed: whether the pieces show the log probability of each token, or only their sum.
    Raises MalformedAnswer.
    """
    end: TextChoice | None = None
    async with aclosing(events):
        async for event in events:
            chunk = read_chunk(TextChunk, event)
            meter.saw(chunk.usage)
            for choice in chunk.choices:
                if end is not None:
                    raise MalformedAnswer("its answer goes on after its end")
                tokens = text_tokens(choice.logprobs) if choice.logprobs is not None else ()
                if choice.text or tokens:
                    count, timing = meter.piece(len(tokens) or 1)
                    total = sum(token.logprob for token in tokens)
                    shown = tokens if listed else ()
                    yield TextDelta(choice.text, count, total, timing=timing, logprobs=shown)
                if choice.finish_reason is not None:
                    end = choice
    if end is None or end.finish_reason is None:
        raise MalformedAnswer("its answer has no finish_reason")
    finish = finish_of(end.finish_reason)
    if finish is FinishReason.TOOL_CALLS:
        raise MalformedAnswer("a completion ended with tool calls")
    yield TextDelta("", meter.rest(), finish=finish, timing=meter.timing(), stop=stop_of(end, stops))
