"""The fixture `daemon_home`: a HEARTH_HOME of the test's own, and the daemons that run in it.

A plugin, enabled once for all tests by `pytest_plugins` in tests/conftest.py. Whatever runs in that home is
ended when the test ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engine import paths
from engine.client.http import exchange
from engine.service.places import Places, find_places
from engine.service.protocol import STATE, STOP

ROOT = Path(__file__).parents[1]
STAND_IN = (sys.executable, str(ROOT / "tests/engine/service/stand_in.py"))
REAL = (sys.executable, "-m", "engine.service")
PATIENCE_MS = 60_000


class DaemonHome:
    """The home, and what can be done to the daemons in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.stand_in = STAND_IN
        self.real = REAL

    @property
    def places(self) -> Places:
        return find_places()

    def start(self, *arguments: str, command: tuple[str, ...] = STAND_IN) -> subprocess.Popen[bytes]:
        """Start a daemon and return when it said that it listens, or its error; see `report`."""
        read, write = os.pipe()
        process = subprocess.Popen(
            [*command, *arguments, "--report-fd", str(write)], pass_fds=(write,), stderr=subprocess.PIPE
        )
        os.close(write)
        with os.fdopen(read, "rb") as file:
            process.report = json.loads(file.readline() or b"null")  # type: ignore[attr-defined]
        return process

    def pids(self) -> list[int]:
        """Processes of the service in this home."""
        found = []
        wanted = f"{paths.HOME_VARIABLE}={self.home}".encode()
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                ours = b"engine.service" in words or any(word.endswith(b"/stand_in.py") for word in words)
                if entry.name.isdigit() and ours and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def only_pid(self) -> int:
        """The daemon's pid, once those that lost the race to start have ended."""
        pid = int(json.loads(self.places.state.read_text())["pid"])
        for other in self.pids():
            if other != pid:
                with suppress(ProcessLookupError):
                    self.kill(other, 0)
        assert self.pids() == [pid]
        return pid

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Send a signal (0: none) and wait until the process has ended. Raises ProcessLookupError."""
        descriptor = os.pidfd_open(pid)
        try:
            os.kill(pid, number)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            assert poll.poll(PATIENCE_MS), f"process {pid} did not end"
        finally:
            os.close(descriptor)

    def state(self) -> dict[str, Any]:
        """What the daemon says of itself."""
        return json.loads(asyncio.run(self.ask("GET", STATE)))

    def stop(self) -> None:
        """Ask the daemon to end; returns at once."""
        asyncio.run(self.ask("POST", STOP))

    async def ask(self, method: str, target: str, body: bytes = b"", **headers: str) -> bytes:
        """A whole answer."""
        pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
        async with exchange(self.places.socket, method, target, body=body, headers=pairs) as response:
            return await response.body()

    def log(self) -> str:
        """All that daemons left for people to read."""
        folder = self.home / "logs"
        return (
            "".join(path.read_text(errors="replace") for path in folder.iterdir()) if folder.exists() else ""
        )


@pytest.fixture
def daemon_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaemonHome]:
    home = tmp_path / "h"
    monkeypatch.setenv(paths.HOME_VARIABLE, str(home))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    here = DaemonHome(home)
    yield here
    for pid in here.pids():
        with suppress(ProcessLookupError):
            here.kill(pid)
    socket_folder = here.places.socket.parent
    if socket_folder != here.places.folder:
        for left in socket_folder.iterdir():
            left.unlink()
        socket_folder.rmdir()
