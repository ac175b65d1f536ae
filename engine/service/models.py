"""From a model's name to an engine that loads it, and which names there are."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from engine.backends.choose import is_encoder
from engine.backends.native import open_gguf
from engine.catalogue.lookup import all_entries, resolve
from engine.catalogue.status import ModelState, status_of
from engine.client.encoder import open_encoder
from engine.client.in_process import open_in_process
from engine.errors import HearthError
from engine.generation.disk_tier import DiskRoom
from engine.service.host import HostedEngine
from engine.service.served import ServedModel
from engine.service.settings import ServiceSettings


def model_opener(settings: ServiceSettings) -> Callable[[str, int], Awaitable[HostedEngine]]:
    """For `ModelHost`: finds the file (which hashes it at the first use) and begins to load it."""
    folder = Path(settings.cache.folder).expanduser() if settings.cache.folder else None
    disk = DiskRoom(int(settings.cache.disk_gib * (1 << 30)), folder)

    async def open_model(name: str, threads: int) -> HostedEngine:
        checking = Checking()
        try:
            path = await asyncio.to_thread(resolve, name, report=checking)
        finally:
            checking.stopped = True
        context_tokens = settings.context_tokens or None
        if await asyncio.to_thread(_encodes, path):
            return open_encoder(path, threads=threads or None, context_tokens=context_tokens)
        return open_in_process(
            path,
            threads=threads or None,
            context_tokens=context_tokens,
            max_requests=settings.max_requests,
            disk=disk,
        )

    return open_model


def _encodes(path: Path) -> bool:
    try:
        return is_encoder(open_gguf(path))
    except HearthError:
        return False  # the engine that tries to load it tells what is wrong


class _Stopped(Exception):
    """Nobody waits for the model any more."""


class Checking:
    """A Reporter that ends the work it is told of once nobody waits for it: threads cannot be cancelled."""

    stopped = False

    def progress(self, stage: str, done: int, total: int) -> None:  # noqa: ARG002 - Reporter's
        if self.stopped:
            raise _Stopped

    def note(self, text: str) -> None:
        pass


class KnownModels:
    """For `ModelHost`: the names that requests may use, looked up anew now and then, not for each request.

    default: the daemon's model; when it is a file, it may be asked for whatever else is in use.
    """

    SECONDS = 2.0

    def __init__(self, default: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._default = default
        self._clock = clock
        self._names: tuple[str, ...] = ()
        self._when: float | None = None

    async def __call__(self, used: str) -> Sequence[ServedModel]:
        """Whole models of the catalogue, the one in use, and the default; a file's name is its alias.

        used: "" when there is none.

        Raises SettingsError when the user's catalogue cannot be read.
        """
        if self._when is None or self._clock() - self._when >= self.SECONDS:
            self._names = await asyncio.to_thread(_ready)
            self._when = self._clock()
        models = [ServedModel(name) for name in self._names]
        files = [self._default] if os.sep in self._default else []
        for name in dict.fromkeys((*files, used)):
            if name and name not in self._names:
                models.append(ServedModel(name, (Path(name).stem,) if os.sep in name else ()))
        return models


def _ready() -> tuple[str, ...]:
    return tuple(entry.id for entry in all_entries() if status_of(entry).state is ModelState.READY)
