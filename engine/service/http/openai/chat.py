"""POST /v1/chat/completions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from pydantic import TypeAdapter
from starlette.responses import JSONResponse

from engine.service.http.answers import DONE, EVENT_STREAM, Stream, event
from engine.service.http.choices import Gathered, Usage, side_by_side
from engine.service.http.endpoint import Answer, Asked, Endpoint
from engine.service.http.fields import for_choice, new_id, now
from engine.service.http.openai.chat_body import ChatBody
from engine.service.http.openai.logprobs import chat_logprobs
from engine.service.http.problems import Api, Problem, error_body
from engine.service.http.service import Service
from engine.types import ChatDelta, ChatRequest, TokenLogprob, ToolCallDelta


def endpoints(service: Service) -> list[Endpoint]:
    async def chat(asked: Asked) -> Answer:
        body: ChatBody = asked.body
        model = (await service.model(body.model)).name
        service.check_choices(1, body.n or 1)
        running = _Chat(service, body, body.request(service.defaults), model)
        if body.stream:
            return Stream(running.events(), EVENT_STREAM, _failed)
        return JSONResponse(await running.answer())

    adapter = TypeAdapter(ChatBody)
    return [Endpoint("POST", "/v1/chat/completions", "The next message of a chat", chat, adapter)]


def _failed(problem: Problem) -> bytes:
    return event(error_body(Api.OPENAI, problem)) + DONE


class _Chat:
    """One request on its way, with its n choices."""

    def __init__(self, service: Service, body: ChatBody, request: ChatRequest, model: str) -> None:
        self._service = service
        self._body = body
        self._request = request
        self._model = model
        self._usage = Usage()
        self._head: dict[str, object] = {"id": new_id("chatcmpl-"), "created": now(), "model": model}

    async def answer(self) -> dict[str, object]:
        gathered = [Gathered() for _ in range(self._body.n or 1)]
        async with aclosing(self._deltas()) as deltas:
            async for index, delta in deltas:
                gathered[index].add(delta)
        choices = [self._choice(index, one) for index, one in enumerate(gathered)]
        return {**self._head, "object": "chat.completion", "choices": choices, "usage": self._usage.openai()}

    async def events(self) -> AsyncGenerator[bytes, None]:
        with_usage = self._body.stream_options is not None and self._body.stream_options.include_usage
        head = {**self._head, "object": "chat.completion.chunk"}
        chunk = {**head, "usage": None} if with_usage else head
        begun: set[int] = set()
        async with aclosing(self._deltas()) as deltas:
            async for index, delta in deltas:
                pieces: list[dict[str, object]] = (
                    [] if index in begun else [{"role": "assistant", "content": ""}]
                )
                begun.add(index)
                if delta.text or delta.reasoning or delta.tool_calls or delta.logprobs:
                    pieces.append(_delta(delta))
                for piece in pieces:
                    logprobs = None if "role" in piece else self._logprobs(delta.logprobs)
                    choice = {"index": index, "delta": piece, "logprobs": logprobs, "finish_reason": None}
                    yield event({**chunk, "choices": [choice]})
                if delta.finish is not None:
                    end = {"index": index, "delta": {}, "logprobs": None, "finish_reason": delta.finish.value}
                    yield event({**chunk, "choices": [end]})
        if with_usage:
            yield event({**head, "choices": [], "usage": self._usage.openai()})
        yield DONE

    async def _deltas(self) -> AsyncGenerator[tuple[int, ChatDelta], None]:
        streams = [
            self._service.engine.chat(
                replace(self._request, sampling=for_choice(self._request.sampling, index)), self._model
            )
            for index in range(self._body.n or 1)
        ]
        async with aclosing(side_by_side(streams)) as deltas:
            async for index, delta in deltas:
                self._usage.add(delta, first_of_prompt=index == 0)
                yield index, delta

    def _choice(self, index: int, gathered: Gathered) -> dict[str, object]:
        text = "".join(gathered.text)
        message: dict[str, object] = {"role": "assistant", "content": text, "refusal": None}
        if reasoning := "".join(gathered.reasoning):
            message["reasoning_content"] = reasoning
        if gathered.calls:
            message["content"] = text or None
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in gathered.calls.values()
            ]
        finish = gathered.last.finish
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(gathered.logprobs),
            "finish_reason": finish.value if finish is not None else None,
        }

    def _logprobs(self, tokens: list[TokenLogprob] | tuple[TokenLogprob, ...]) -> dict[str, object] | None:
        if not self._body.logprobs:
            return None
        return {"content": chat_logprobs(tokens), "refusal": None}


def _delta(delta: ChatDelta) -> dict[str, object]:
    piece: dict[str, object] = {}
    if delta.reasoning:
        piece["reasoning_content"] = delta.reasoning
    if delta.text:
        piece["content"] = delta.text
    if delta.tool_calls:
        piece["tool_calls"] = [_call_delta(call) for call in delta.tool_calls]
    return piece


def _call_delta(call: ToolCallDelta) -> dict[str, object]:
    """The first piece has the id and the name; later ones only more of the arguments."""
    if not call.id:
        return {"index": call.index, "function": {"arguments": call.arguments}}
    function = {"name": call.name, "arguments": call.arguments}
    return {"index": call.index, "id": call.id, "type": "function", "function": function}
