"""POST /v1/responses."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from pydantic import TypeAdapter
from starlette.responses import JSONResponse

from engine.service.http.answers import EVENT_STREAM, Stream, event
from engine.service.http.choices import Usage, whole
from engine.service.http.endpoint import Answer, Asked, Endpoint
from engine.service.http.fields import new_id, now
from engine.service.http.openai.responses_body import ResponseBody
from engine.service.http.openai.responses_output import Event, Output
from engine.service.http.problems import Problem
from engine.service.http.service import Service
from engine.types import ChatDelta, ChatRequest, FinishReason


def endpoints(service: Service) -> list[Endpoint]:
    async def respond(asked: Asked) -> Answer:
        body: ResponseBody = asked.body
        model = (await service.model(body.model)).name
        response = _Response(service, body, body.request(service.defaults), model)
        if body.stream:
            return Stream(response.events(), EVENT_STREAM, response.failed)
        return JSONResponse(await response.answer())

    adapter = TypeAdapter(ResponseBody)
    return [Endpoint("POST", "/v1/responses", "The next message, in OpenAI's newer form", respond, adapter)]


class _Response:
    """One request on its way."""

    def __init__(self, service: Service, body: ResponseBody, request: ChatRequest, model: str) -> None:
        self._service = service
        self._request = request
        self._model = model
        self._output = Output(body.declared())
        self._usage = Usage()
        self._sent = 0
        self._fixed: dict[str, object] = {
            "id": new_id("resp_"),
            "object": "response",
            "created_at": now(),
            "model": model,
            "background": False,
            **body.echoed(),
        }

    async def answer(self) -> dict[str, object]:
        finish = None
        async with aclosing(self._deltas()) as deltas:
            async for delta in deltas:
                for _ in self._output.add(delta):
                    pass
                finish = delta.finish
        for _ in self._output.close(_status(finish)):
            pass
        return self._object(_status(finish))

    async def events(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._deltas()) as deltas:
            async for delta in deltas:
                if not self._sent:
                    for name in ("response.created", "response.in_progress"):
                        yield self._event({"type": name, "response": self._object("in_progress")})
                for grown in self._output.add(delta):
                    yield self._event(grown)
                if delta.finish is not None:
                    for closed in self._output.close(_status(delta.finish)):
                        yield self._event(closed)
                    status = _status(delta.finish)
                    yield self._event({"type": f"response.{status}", "response": self._object(status)})

    def failed(self, problem: Problem) -> bytes:
        """The events of a response that breaks off."""
        codes = {400: "invalid_prompt", 429: "rate_limit_exceeded"}
        code = codes.get(problem.status, "server_error")
        error = {"code": code, "message": str(problem.error)}
        told = self._event({"type": "error", "param": problem.field, **error})
        failed = {**self._object("failed"), "error": error}
        return told + self._event({"type": "response.failed", "response": failed})

    async def _deltas(self) -> AsyncGenerator[ChatDelta, None]:
        async with aclosing(whole(self._service.engine.chat(self._request, self._model))) as deltas:
            async for delta in deltas:
                self._usage.add(delta)
                yield delta

    def _event(self, data: Event) -> bytes:
        told = {**data, "sequence_number": self._sent}
        self._sent += 1
        return event(told, str(data["type"]))

    def _object(self, status: str) -> dict[str, object]:
        ended = status in ("completed", "incomplete")
        return {
            **self._fixed,
            "status": status,
            "error": None,
            "completed_at": now() if status == "completed" else None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "output": self._output.items(),
            "usage": self._usage_object() if ended else None,
        }

    def _usage_object(self) -> dict[str, object]:
        usage = self._usage
        return {
            "input_tokens": usage.prompt,
            "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
            "output_tokens": usage.generated,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.prompt + usage.generated,
        }


def _status(finish: FinishReason | None) -> str:
    return "incomplete" if finish is FinishReason.LENGTH else "completed"
