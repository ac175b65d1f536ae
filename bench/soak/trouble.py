"""What is done to the daemon while it works: killed, and its disk cache spoilt."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import select
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

from bench.own_home import daemon_pid
from engine.generation.chunk_files import SUFFIX, TEMPORARY
from engine.generation.disk_tier import kv_folder
from engine.service.places import Places

LOOK_SECONDS = 0.002
MOST_DELAY_SECONDS = 0.3
SPOILT_SECONDS = 2.0
FULL_BYTES = 4096
"""No file may grow beyond this while the disk is said to be full."""


class Killer:
    """Kills the daemon so many times, in the first half of the requests and with some of them in flight.

    Some deaths come in a write to the disk cache, or while the next daemon still loads its model.
    begun, in_flight: the clients' requests, by now.
    """

    def __init__(
        self, places: Places, rng: random.Random, begun: Callable[[], int], in_flight: Callable[[], int]
    ) -> None:
        self._places = places
        self._rng = rng
        self._begun = begun
        self._in_flight = in_flight
        self._ends: list[float] = []
        self._dying = False

    @property
    def kills(self) -> int:
        return len(self._ends)

    def killed_since(self, moment: float) -> bool:
        """Whether a daemon died since that reading of time.monotonic, or does so now."""
        return self._dying or any(end >= moment for end in self._ends)

    async def run(self, kills: int, requests: int) -> None:
        """Return after the last one."""
        for number in range(kills):
            due = (number + self._rng.uniform(0.3, 1.0)) * requests / (2 * kills)
            how = self._rng.choice(("any time", "writing", "loading") if number else ("any time", "writing"))
            if how != "loading":
                await self._busy(due)
                await asyncio.sleep(MOST_DELAY_SECONDS * self._rng.random())
            if how == "writing":
                await self._a_write(requests / 2)
            await self._kill()

    async def _busy(self, due: float) -> None:
        await _until(lambda: self._begun() >= due and self._in_flight() > 0)

    async def _a_write(self, before: float) -> None:
        """Wait for a write to the disk cache; if there is none before so many requests, do without."""
        await _until(lambda: self._begun() >= before or any(kv_folder().glob("*" + TEMPORARY)))

    async def _kill(self) -> None:
        """kill -9; returns when the process has ended."""
        await _until(lambda: _is_alive(daemon_pid(self._places)))
        pid = daemon_pid(self._places)
        assert pid is not None
        descriptor = os.pidfd_open(pid)
        self._dying = True
        try:
            os.kill(pid, signal.SIGKILL)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            await _until(lambda: bool(poll.poll(0)))
        finally:
            os.close(descriptor)
            self._ends.append(time.monotonic())
            self._dying = False


async def spoil_the_disk(places: Places, rng: random.Random) -> AsyncIterator[str]:
    """Each step does one harm to the disk cache, and undoes what must not last; gives its name."""
    harms = [_flip_bytes, _remove_folder, _put_a_file_there, _fill]
    rng.shuffle(harms)
    for harm in harms:
        await harm(places)
        yield harm.__name__.strip("_")


async def _flip_bytes(_: Places) -> None:
    for path in kv_folder().glob("*" + SUFFIX):
        with suppress(OSError), path.open("r+b") as file:
            file.seek(path.stat().st_size // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))


async def _remove_folder(_: Places) -> None:
    shutil.rmtree(kv_folder(), ignore_errors=True)


async def _put_a_file_there(_: Places) -> None:
    folder = kv_folder()
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.write_text("in the way")
    await asyncio.sleep(SPOILT_SECONDS)
    with suppress(OSError):
        folder.unlink()


async def _fill(places: Places) -> None:
    """As when the disk is full: writes fail in the middle of a file."""
    pid = daemon_pid(places)
    with suppress(ProcessLookupError):
        resource.prlimit(pid or 0, resource.RLIMIT_FSIZE, (FULL_BYTES, resource.RLIM_INFINITY))
        await asyncio.sleep(SPOILT_SECONDS)
        resource.prlimit(pid or 0, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(LOOK_SECONDS)


def _is_alive(pid: int | None) -> bool:
    return pid is not None and Path(f"/proc/{pid}").exists()
