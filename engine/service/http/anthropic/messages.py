"""POST /v1/messages and /v1/messages/count_tokens."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace

from pydantic import TypeAdapter
from starlette.responses import JSONResponse

from engine.service.http.answers import EVENT_STREAM, Stream, event
from engine.service.http.anthropic.body import CountBody, MessagesBody
from engine.service.http.anthropic.context import CLEAR_THINKING
from engine.service.http.choices import Gathered, Usage, whole
from engine.service.http.endpoint import Answer, Asked, Endpoint
from engine.service.http.fields import new_id
from engine.service.http.problems import Api, Problem, error_body
from engine.service.http.service import Service
from engine.types import ChatDelta, ChatRequest, FinishReason, ToolCallDelta


def endpoints(service: Service) -> list[Endpoint]:
    async def create(asked: Asked) -> Answer:
        body: MessagesBody = asked.body
        model = (await service.model(body.model)).name
        managed = await _managed(service, body, model)
        message = _Message(service, body.request(service.defaults), model, managed)
        if body.stream:
            return Stream(message.events(), EVENT_STREAM, _failed)
        return JSONResponse(await message.answer())

    async def count(asked: Asked) -> Answer:
        body: CountBody = asked.body
        model = (await service.model(body.model)).name
        counted: dict[str, object] = {
            "input_tokens": await service.engine.count_tokens(body.request(service.defaults), model)
        }
        if body.context_management is not None:
            original = await service.engine.count_tokens(body.unedited(service.defaults), model)
            counted["context_management"] = {"original_input_tokens": original}
        return JSONResponse(counted)

    return [
        Endpoint("POST", "/v1/messages", "The next message", create, TypeAdapter(MessagesBody)),
        Endpoint("POST", "/v1/messages/count_tokens", "The prompt's length", count, TypeAdapter(CountBody)),
    ]


def _failed(problem: Problem) -> bytes:
    return event(error_body(Api.ANTHROPIC, problem), "error")


async def _managed(service: Service, body: CountBody, model: str) -> dict[str, object]:
    """What an answer tells of the edits that its request asked for."""
    if body.context_management is None:
        return {}
    applied: list[dict[str, object]] = []
    original = body.unedited(service.defaults)
    edited, turns = body.context_management.apply(original.messages)
    if turns:
        count = service.engine.count_tokens
        after = await count(replace(original, messages=tuple(edited)), model)
        applied.append(
            {
                "type": CLEAR_THINKING,
                "cleared_thinking_turns": turns,
                "cleared_input_tokens": await count(original, model) - after,
            }
        )
    return {"context_management": {"applied_edits": applied}}


class _Message:
    """One request on its way.

    managed: what the end of the answer tells of edits.
    """

    def __init__(
        self, service: Service, request: ChatRequest, model: str, managed: dict[str, object]
    ) -> None:
        self._service = service
        self._request = request
        self._usage = Usage()
        self._fixed: dict[str, object] = {
            "id": new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": model,
        }
        self._model = model
        self._managed = managed

    async def answer(self) -> dict[str, object]:
        gathered = Gathered()
        async with aclosing(self._deltas()) as deltas:
            async for delta in deltas:
                gathered.add(delta)
        content: list[dict[str, object]] = []
        if thinking := "".join(gathered.reasoning):
            content.append({"type": "thinking", "thinking": thinking, "signature": ""})
        if text := "".join(gathered.text):
            content.append({"type": "text", "text": text})
        for call in gathered.calls.values():
            content.append(
                {"type": "tool_use", "id": call.id, "name": call.name, "input": _arguments(call.arguments)}
            )
        end = {**_end(gathered.last), "usage": self._usage_object(), **self._managed}
        return {**self._fixed, "content": content, **end}

    async def events(self) -> AsyncGenerator[bytes, None]:
        blocks = _Blocks()
        begun = False
        async with aclosing(self._deltas()) as deltas:
            async for delta in deltas:
                if not begun:
                    begun = True
                    usage = {"input_tokens": 0, "output_tokens": 0}
                    if (timing := delta.timing) is not None:
                        usage["input_tokens"] = timing.prompt_tokens - timing.cached_tokens
                        usage["cache_read_input_tokens"] = timing.cached_tokens
                    empty: dict[str, object] = {
                        "content": [],
                        "stop_reason": None,
                        "stop_sequence": None,
                        "usage": usage,
                    }
                    yield _event({"type": "message_start", "message": {**self._fixed, **empty}})
                for grown in blocks.add(delta):
                    yield _event(grown)
                if delta.finish is not None:
                    for closed in blocks.close():
                        yield _event(closed)
                    end = {"delta": _end(delta), "usage": self._usage_object(), **self._managed}
                    yield _event({"type": "message_delta", **end})
                    yield _event({"type": "message_stop"})

    async def _deltas(self) -> AsyncGenerator[ChatDelta, None]:
        async with aclosing(whole(self._service.engine.chat(self._request, self._model))) as deltas:
            async for delta in deltas:
                self._usage.add(delta)
                yield delta

    def _usage_object(self) -> dict[str, object]:
        usage = self._usage
        return {
            "input_tokens": usage.prompt - usage.cached,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": usage.generated,
        }


class _Blocks:
    """Content blocks that follow each other; one is open at a time."""

    def __init__(self) -> None:
        self._index = -1
        self._open = ""

    def add(self, delta: ChatDelta) -> Iterator[dict[str, object]]:
        if delta.reasoning:
            yield from self._in("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            yield self._delta({"type": "thinking_delta", "thinking": delta.reasoning})
        if delta.text:
            yield from self._in("text", {"type": "text", "text": ""})
            yield self._delta({"type": "text_delta", "text": delta.text})
        for call in delta.tool_calls:
            yield from self._in(f"tool_use {call.index}", _tool_use(call))
            if call.arguments:
                yield self._delta({"type": "input_json_delta", "partial_json": call.arguments})

    def close(self) -> Iterator[dict[str, object]]:
        if self._open == "thinking":
            yield self._delta({"type": "signature_delta", "signature": ""})
        if self._open:
            yield {"type": "content_block_stop", "index": self._index}
        self._open = ""

    def _in(self, block: str, start: dict[str, object]) -> Iterator[dict[str, object]]:
        """Have this block open."""
        if self._open != block:
            yield from self.close()
            self._open = block
            self._index += 1
            yield {"type": "content_block_start", "index": self._index, "content_block": start}

    def _delta(self, delta: dict[str, object]) -> dict[str, object]:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}


def _tool_use(call: ToolCallDelta) -> dict[str, object]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}


def _event(data: dict[str, object]) -> bytes:
    return event(data, str(data["type"]))


def _end(last: ChatDelta) -> dict[str, object]:
    if last.finish is FinishReason.LENGTH:
        reason = "max_tokens"
    elif last.finish is FinishReason.TOOL_CALLS:
        reason = "tool_use"
    else:
        reason = "stop_sequence" if last.stop else "end_turn"
    return {"stop_reason": reason, "stop_sequence": last.stop or None}


def _arguments(text: str) -> object:
    """The arguments object; one that was cut off has no form here, so it is empty (stop_reason tells why)."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
