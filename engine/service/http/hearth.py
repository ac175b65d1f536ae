"""Our own clients' routes under /hearth/v1/: the values of engine.types as JSON, streams as lines of it.

The last line of a stream has `finish`, or is {"error": {"kind", "what", "meaning", "action"}}. The query's
`model` names the model; without it, it is the one in memory.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from pydantic import ConfigDict, TypeAdapter, with_config
from starlette.responses import Response

from engine.service.http.answers import NDJSON, Stream
from engine.service.http.deadlines import LONGEST_SECONDS
from engine.service.http.endpoint import Answer, Asked, Endpoint
from engine.service.http.fields import MAX_STOPS
from engine.service.http.problems import Api, BadField, Problem, error_body
from engine.service.http.service import Service
from engine.types import (
    ChatDelta,
    ChatMessage,
    ChatRequest,
    CompletionRequest,
    Constraint,
    ContextFile,
    EngineStatus,
    InfillRequest,
    SamplingParams,
    TextDelta,
    Tool,
    ToolCall,
)

# Pydantic's view of these classes, and nothing else of them: a field that is unknown is an error.
for _kind in (
    InfillRequest,
    ContextFile,
    SamplingParams,
    CompletionRequest,
    ChatRequest,
    ChatMessage,
    ToolCall,
    Tool,
    Constraint,
):
    with_config(ConfigDict(extra="forbid"))(_kind)

_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 100),
    "top_k": (0, 1 << 31),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repetition_penalty": (1e-3, 10),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "penalty_window": (0, 1 << 31),
    "seed": (-(1 << 63), (1 << 63) - 1),
}

Request = InfillRequest | CompletionRequest | ChatRequest


def endpoints(service: Service) -> list[Endpoint]:
    engine = service.engine
    status_adapter = TypeAdapter(EngineStatus)

    def streaming(start: Callable[[Any, str], AsyncGenerator[Any, None]], writes: TypeAdapter[Any]) -> Any:
        async def handle(asked: Asked) -> Answer:
            check_request(asked.body)
            return Stream(_lines(start(asked.body, asked.query.get("model", "")), writes), NDJSON, _failed)

        return handle

    async def warm(asked: Asked) -> Answer:
        check_request(asked.body)
        await engine.warm(asked.body, asked.query.get("model", ""))
        return Response(status_code=204)

    async def status(asked: Asked) -> Answer:
        told = await engine.status(asked.query.get("model", ""))
        return Response(status_adapter.dump_json(told), media_type="application/json")

    texts, chats = TypeAdapter(TextDelta), TypeAdapter(ChatDelta)
    infill_body, complete_body = TypeAdapter(InfillRequest), TypeAdapter(CompletionRequest)
    chat_body = TypeAdapter(ChatRequest)
    return [
        Endpoint("POST", "/hearth/v1/infill", "Fill a hole", streaming(engine.infill, texts), infill_body),
        Endpoint("POST", "/hearth/v1/complete", "Continue", streaming(engine.complete, texts), complete_body),
        Endpoint("POST", "/hearth/v1/chat", "Chat", streaming(engine.chat, chats), chat_body),
        Endpoint("POST", "/hearth/v1/warm", "Prefill a hole's prompt", warm, infill_body),
        Endpoint("GET", "/hearth/v1/status", "The engine's state", status),
    ]


async def _lines(stream: AsyncGenerator[Any, None], writes: TypeAdapter[Any]) -> AsyncGenerator[bytes, None]:
    async with aclosing(stream) as deltas:
        async for delta in deltas:
            yield writes.dump_json(delta, exclude_defaults=True) + b"\n"


def _failed(problem: Problem) -> bytes:
    return json.dumps(error_body(Api.HEARTH, problem)).encode() + b"\n"


def check_request(request: Request) -> None:
    """Raises BadField for numbers that the engine's sampling has no meaning for."""
    for field, (low, high) in _RANGES.items():
        value = getattr(request.sampling, field)
        if value is not None and not low <= value <= high:
            raise BadField(f"sampling.{field}", f"It must be between {low:g} and {high:g}.")
    if not 0 <= request.max_tokens < 1 << 31:
        raise BadField("max_tokens", "It must not be negative, and less than 2^31.")
    if len(request.stop) > MAX_STOPS or "" in request.stop:
        raise BadField("stop", f"At most {MAX_STOPS} strings, and none of them empty.")
    if request.timeout_s is not None and not 0 < request.timeout_s <= LONGEST_SECONDS:
        raise BadField("timeout_s", f"It must be above 0, and at most {LONGEST_SECONDS:.0f}.")
    top = None if isinstance(request, InfillRequest) else request.top_logprobs
    if top is not None and not 0 <= top <= 20:
        raise BadField("top_logprobs", "It must be between 0 and 20.")
