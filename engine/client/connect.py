"""The way in for editors and commands: the user's one daemon, started when it does not run."""

from __future__ import annotations

import os
from pathlib import Path

from engine.client.link import DaemonLink
from engine.client.remote import RemoteEngine
from engine.service.settings import read_settings


async def connect(model: str = "", *, threads: int = 0) -> RemoteEngine:
    """An engine whose model is in the daemon's memory, starting and loading what is not there yet.

    model: a name of the catalogue, the path of a GGUF file, or a remote's model; "" is the service's default.
    threads: worker threads, for all clients of the daemon; 0 leaves it as it is.
    Raises HearthError: the service's settings are wrong, the daemon cannot start, the model cannot be loaded.
    """
    name = _name(model or read_settings({}).model)
    arguments = ["--model", name, *(["--threads", str(threads)] if threads else [])]
    engine = RemoteEngine(DaemonLink(arguments), name)
    await engine.load(threads)
    return engine


def _name(model: str) -> str:
    """A path as the daemon sees it, which runs in another folder."""
    if os.sep in model or "/" in model or model.endswith(".gguf"):
        return str(Path(model).expanduser().absolute())
    return model
