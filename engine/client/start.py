"""Start the daemon, and not too often."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from engine import paths
from engine.errors import EngineUnavailable
from engine.service.places import Places
from engine.service.wire import error_from_json

COMMAND = (sys.executable, "-P", "-m", "engine.service")
START_SECONDS = 60.0
"""Beyond this a start is given up. It includes the old daemon's drain when another version is replaced."""

_STDERR_NAME = "daemon.err"
_STDERR_BYTES = 100_000
_ROOT = Path(__file__).resolve().parents[2]


class StartLimit:
    """A daemon that dies again and again is started ever less often.

    Three starts are free; then each waits twice as long after the one before, up to MOST_SECONDS. Starts
    older than FORGET_SECONDS do not count. Nobody sleeps: a start that comes too early is refused.
    """

    FREE = 3
    MOST_SECONDS = 60.0
    FORGET_SECONDS = 600.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._starts: deque[float] = deque()

    def take(self) -> None:
        """Count a start. Raises EngineUnavailable when it is too early."""
        now = self._clock()
        while self._starts and now - self._starts[0] > self.FORGET_SECONDS:
            self._starts.popleft()
        if (extra := len(self._starts) - self.FREE) >= 0:
            pause = min(2.0**extra, self.MOST_SECONDS)
            left = self._starts[-1] + pause - now
            if left > 0:
                raise EngineUnavailable(
                    f"The engine ended {len(self._starts)} times in the last minutes; "
                    f"it is started again in {left:.0f} s at the earliest.",
                    meaning="There are no suggestions until then.",
                    action="Run `hearth logs` to see why it ends.",
                )
        self._starts.append(now)


async def start_daemon(places: Places, arguments: Sequence[str], command: Sequence[str] = COMMAND) -> None:
    """Start a daemon of its own session and return when one listens: this one, or one that was quicker.

    It keeps no file of ours open but the log of its stderr. Raises HearthError when it cannot start.
    """
    # A thread cannot be cancelled, so it owns what it opens until it hands it over.
    spawning = asyncio.ensure_future(asyncio.to_thread(_spawn, places, [*command, *arguments]))
    try:
        process, read_end = await asyncio.shield(spawning)
    except OSError as error:
        raise EngineUnavailable(
            f"The engine cannot be started: {error.strerror or error}.",
            action="Run `hearth doctor`.",
        ) from error
    except asyncio.CancelledError:
        spawning.add_done_callback(_let_be)
        raise
    try:
        async with asyncio.timeout(START_SECONDS):
            line = await _read_line(read_end)
    except TimeoutError:
        raise EngineUnavailable(
            f"The engine (process {process.pid}) did not start within {START_SECONDS:.0f} s.",
            action="Run `hearth doctor`, and `hearth logs` to see what it is doing.",
        ) from None
    try:
        told = json.loads(line)
    except ValueError:
        raise EngineUnavailable(
            "The engine ended while it started.", action="Run `hearth doctor` and `hearth logs` to see why."
        ) from None
    if (error_told := error_from_json(told)) is not None:
        raise error_told


def _spawn(places: Places, command: Sequence[str]) -> tuple[subprocess.Popen[bytes], int]:
    """The daemon's process, and the end of the pipe on which it reports. Raises OSError."""
    read_end, write_end = os.pipe()
    try:
        with _stderr_file().open("ab") as stderr:
            process = subprocess.Popen(
                [*command, "--report-fd", str(write_end)],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                # Not in the user's project: neither to keep its disk busy, nor to import modules from it.
                cwd=places.folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(_python_path())},
                pass_fds=(write_end,),
                start_new_session=True,
            )
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    # It outlives us or we outlive it; either way nobody else collects its exit code.
    threading.Thread(target=process.wait, name="hearth-reaper", daemon=True).start()
    return process, read_end


def _let_be(spawning: asyncio.Future[tuple[subprocess.Popen[bytes], int]]) -> None:
    """The daemon goes on, and nobody waits for its report."""
    if not spawning.cancelled() and spawning.exception() is None:
        os.close(spawning.result()[1])


def _python_path() -> list[str]:
    """Where this very Hearth is, then what was there already, with folders that do not follow the cwd."""
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return [str(_ROOT), *(str(Path(entry).absolute()) for entry in given)]


def _stderr_file() -> Path:
    """What the daemon's interpreter or native code says when it crashes; kept small."""
    path = paths.logs_dir() / _STDERR_NAME
    path.touch(mode=0o600)
    if path.stat().st_size > _STDERR_BYTES:
        os.truncate(path, 0)
    return path


async def _read_line(descriptor: int) -> bytes:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        return await reader.readline()
    finally:
        transport.close()
