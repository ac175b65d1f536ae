"""What a running daemon says of itself."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from engine.service.protocol import PROTOCOL


def installed_version() -> str:
    """Hearth's; "0" when it is run from a source tree."""
    try:
        return version("hearth")
    except PackageNotFoundError:
        return "0"


@dataclass(frozen=True, slots=True)
class DaemonFacts:
    """What does not change while a daemon runs; also the content of its state file.

    started: seconds since the epoch.
    model: what requests get that name none, while no other is in memory.
    tcp_port: None when it listens on the socket alone.
    """

    version: str
    socket: str
    tcp_port: int | None
    model: str
    idle_minutes: float
    log: str
    pid: int = field(default_factory=os.getpid)
    protocol: int = PROTOCOL
    started: float = field(default_factory=time.time)
