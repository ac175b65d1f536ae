"""From a model's name to an engine that loads it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from engine.catalogue.lookup import resolve
from engine.client.in_process import open_in_process
from engine.service.host import HostedEngine


def model_opener(context_tokens: int | None) -> Callable[[str, int], Awaitable[HostedEngine]]:
    """For `ModelHost`: finds the file (which hashes it at the first use) and begins to load it."""

    async def open_model(name: str, threads: int) -> HostedEngine:
        path = await asyncio.to_thread(resolve, name)
        engine = open_in_process(path, threads=threads or None, context_tokens=context_tokens)
        return cast(HostedEngine, engine)

    return open_model
