"""From a model's name to an engine that loads it, and which names there are."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from engine.catalogue.lookup import all_entries, resolve
from engine.catalogue.status import ModelState, status_of
from engine.client.in_process import open_in_process
from engine.service.host import HostedEngine
from engine.service.served import ServedModel


def model_opener(context_tokens: int | None) -> Callable[[str, int], Awaitable[HostedEngine]]:
    """For `ModelHost`: finds the file (which hashes it at the first use) and begins to load it."""

    async def open_model(name: str, threads: int) -> HostedEngine:
        path = await asyncio.to_thread(resolve, name)
        return open_in_process(path, threads=threads or None, context_tokens=context_tokens)

    return open_model


class KnownModels:
    """For `ModelHost`: the names that requests may use, looked up anew now and then, not for each request."""

    SECONDS = 2.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._names: tuple[str, ...] = ()
        self._when: float | None = None

    async def __call__(self, used: str) -> Sequence[ServedModel]:
        """Whole models of the catalogue, and the one in use, which may be a file; its name is an alias then.

        used: "" when there is none.

        Raises SettingsError when the user's catalogue cannot be read.
        """
        if self._when is None or self._clock() - self._when >= self.SECONDS:
            self._names = await asyncio.to_thread(_ready)
            self._when = self._clock()
        models = [ServedModel(name) for name in self._names]
        if used and used not in self._names:
            models.append(ServedModel(used, (Path(used).stem,) if os.sep in used else ()))
        return models


def _ready() -> tuple[str, ...]:
    return tuple(entry.id for entry in all_entries() if status_of(entry).state is ModelState.READY)
