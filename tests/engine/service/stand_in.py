"""The real daemon around a scripted engine: `python stand_in.py [arguments of engine.service]`.

Its models: "slow" never finishes loading, "bad" does not load, "absent" is not there; every other name does.
A prefix that begins with "#wait" gives one piece and then nothing, "#fail" and "#crash" raise, anything
else comes back word by word. A completion of "#sampling" tells the parameters of sampling.
"""

import asyncio
import sys

import engine.service.models
from engine.catalogue.lookup import resolve
from engine.errors import EngineUnavailable, RequestError
from engine.generation.metrics import EngineMetrics
from engine.service.__main__ import main
from engine.types import ChatDelta, EngineStatus, FinishReason, TextDelta


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
        told = request.sampling if request.prompt == "#sampling" else request.prompt
        yield TextDelta(str(told), finish=FinishReason.LENGTH)

    async def chat(self, request):
        yield ChatDelta(reasoning="hm")
        yield ChatDelta(request.messages[-1].content, finish=FinishReason.STOP)

    async def warm(self, request):
        pass

    async def status(self):
        return EngineStatus("ready", self.model, context_tokens=99)

    def metrics(self):
        return EngineMetrics(kv_tokens=640, kv_free_tokens=128, memory_tokens=7, prefilled_tokens=9)

    async def wait_loaded(self):
        if self.model == "slow":
            await asyncio.Event().wait()
        if self.model == "bad":
            raise EngineUnavailable("The model bad does not load.", action="Choose another.")

    async def close(self):
        pass


def model_opener(settings):
    async def open_model(name, threads):
        if name == "absent":
            resolve(name)
        return Engine(name)

    return open_model


if __name__ == "__main__":
    engine.service.models.model_opener = model_opener
    sys.exit(main())
