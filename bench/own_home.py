"""A HEARTH_HOME of a bench's own, so that no daemon of the user's is touched and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from engine import paths
from engine.client import models, service
from engine.errors import EngineUnavailable
from engine.service.places import Places, find_places
from engine.service.settings import FILE_NAME


@asynccontextmanager
async def own_home(named: Mapping[str, Path], context_tokens: int = 0) -> AsyncIterator[Path]:
    """The home's folder; the daemon that runs there is ended on leaving.

    named: models that the catalogue there has besides the built-in ones.
    context_tokens: of the daemon; 0 leaves the default.
    Raises ModelFileError, and EngineUnavailable when the daemon had to be killed.
    """
    before = os.environ.get(paths.HOME_VARIABLE)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        os.environ[paths.HOME_VARIABLE] = folder
        (Path(folder) / "config").mkdir()
        (Path(folder) / "config" / FILE_NAME).write_text(f"context_tokens = {context_tokens}\n")
        for name, file in named.items():
            models.add(name, file)
        try:
            yield Path(folder)
        finally:
            await asyncio.to_thread(_end)
            if before is None:
                del os.environ[paths.HOME_VARIABLE]
            else:
                os.environ[paths.HOME_VARIABLE] = before


def daemon_pid(places: Places) -> int | None:
    """Who runs, as the daemon says; None when nobody does, or was killed before it said so."""
    try:
        return int(json.loads(places.state.read_text())["pid"])
    except (OSError, ValueError, LookupError):
        return None


def _end() -> None:
    try:
        service.stop()
    except EngineUnavailable:
        if (pid := daemon_pid(find_places())) is not None:
            os.kill(pid, signal.SIGKILL)
        raise
