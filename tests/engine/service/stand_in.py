"""The real daemon around a scripted engine: `python stand_in.py [arguments of engine.service]`.

Its models: "slow" never finishes loading, "bad" does not load, "absent" is not there; every other name does.
A prefix that begins with "#wait" gives one piece and then nothing, "#fail" and "#crash" raise, anything
else comes back word by word.
"""

import asyncio
import sys
from contextlib import aclosing

from pydantic import TypeAdapter
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import engine.service.models
from engine.catalogue.lookup import resolve
from engine.errors import EngineUnavailable, HearthError, RequestError
from engine.service.__main__ import main
from engine.service.wire import error_to_json
from engine.types import (
    ChatDelta,
    ChatRequest,
    CompletionRequest,
    EngineStatus,
    FinishReason,
    InfillRequest,
    TextDelta,
)


class Engine:
    def __init__(self, model):
        self.model = model

    async def infill(self, request):
        if request.prefix.startswith("#fail"):
            raise RequestError(f"Refused: {request.prefix}.", meaning="m", action="a")
        if request.prefix.startswith("#crash"):
            raise ValueError(request.prefix)
        if request.prefix.startswith("#wait"):
            yield TextDelta("waiting")
            await asyncio.Event().wait()
        for word in request.prefix.split():
            yield TextDelta(word)
        yield TextDelta("", tokens=0, finish=FinishReason.STOP)

    async def complete(self, request):
        yield TextDelta(str(request.prompt), finish=FinishReason.LENGTH)

    async def chat(self, request):
        yield ChatDelta(reasoning="hm")
        yield ChatDelta(request.messages[-1].content, finish=FinishReason.STOP)

    async def warm(self, request):
        pass

    async def status(self):
        return EngineStatus("ready", self.model, context_tokens=99)

    async def wait_loaded(self):
        if self.model == "slow":
            await asyncio.Event().wait()
        if self.model == "bad":
            raise EngineUnavailable("The model bad does not load.", action="Choose another.")

    async def close(self):
        pass


def model_opener(context_tokens):
    async def open_model(name, threads):
        if name == "absent":
            resolve(name)
        return Engine(name)

    return open_model


def build_app(host, token):
    def streaming(start, request_type, delta_type):
        reads, writes = TypeAdapter(request_type), TypeAdapter(delta_type)

        async def endpoint(request):
            asked = reads.validate_json(await request.body())
            stream = start(asked, request.query_params.get("model", ""))

            async def lines():
                try:
                    async with aclosing(stream):
                        async for delta in stream:
                            yield writes.dump_json(delta) + b"\n"
                except HearthError as error:
                    yield JSONResponse(error_to_json(error)).body + b"\n"

            return StreamingResponse(lines(), media_type="application/x-ndjson")

        return endpoint

    async def warm(request):
        await host.warm(TypeAdapter(InfillRequest).validate_json(await request.body()))
        return Response(status_code=204)

    async def status(request):
        return Response(TypeAdapter(EngineStatus).dump_json(await host.status()))

    return Starlette(
        routes=[
            Route("/hearth/v1/infill", streaming(host.infill, InfillRequest, TextDelta), methods=["POST"]),
            Route(
                "/hearth/v1/complete",
                streaming(host.complete, CompletionRequest, TextDelta),
                methods=["POST"],
            ),
            Route("/hearth/v1/chat", streaming(host.chat, ChatRequest, ChatDelta), methods=["POST"]),
            Route("/hearth/v1/warm", warm, methods=["POST"]),
            Route("/hearth/v1/status", status),
        ]
    )


if __name__ == "__main__":
    engine.service.models.model_opener = model_opener
    sys.exit(main(build_app=build_app))
