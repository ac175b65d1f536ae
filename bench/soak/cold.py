"""A daemon in which every request starts from nothing: `python -m bench.soak.cold`, as `engine.service`.

No prefix is taken from another request, from memory or from the disk, so with one request at a time each
answer is what the model says of itself.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from engine.backends.choose import load_backend
from engine.backends.native import open_gguf
from engine.catalogue.lookup import resolve
from engine.client.in_process import InProcessEngine
from engine.generation.text import TextPrompting
from engine.generation.thread import LoadedModel
from engine.service import models
from engine.service.__main__ import main
from engine.service.host import HostedEngine
from engine.service.settings import ServiceSettings


class ForgetfulBackend:
    """A back end that has no room for a fork: the cache gives up all it has, and the request starts anew."""

    kv_pages = None

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def fork_sequence(self, *_: int) -> int:
        raise MemoryError


def model_opener(settings: ServiceSettings) -> Callable[[str, int], Awaitable[HostedEngine]]:
    async def open_model(name: str, threads: int) -> InProcessEngine:
        path = await asyncio.to_thread(resolve, name)

        def load() -> LoadedModel:
            gguf = open_gguf(path)
            context = settings.context_tokens or None
            backend = load_backend(gguf, threads=threads or None, context_tokens=context)
            return LoadedModel(ForgetfulBackend(backend), TextPrompting(gguf))

        return InProcessEngine(path.stem, load)

    return open_model


if __name__ == "__main__":
    models.model_opener = model_opener
    sys.exit(main())
