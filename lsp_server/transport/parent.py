"""Notices when the editor that started the server dies without a word."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable

log = logging.getLogger(__name__)

POLL_SECONDS = 3.0


def watch(pid: int, on_death: Callable[[], None]) -> Callable[[], None]:
    """Call `on_death` on the event loop once process `pid` is gone. Returns a function that stops watching.

    A pid that is not alive now is no parent of ours to watch (the editor may run in another container) and
    is ignored. On Windows nothing is watched: there the end of stdin tells.
    """
    loop = asyncio.get_running_loop()
    if sys.platform == "win32" or not _alive(pid):
        log.info("the client's process id cannot be watched; the end of stdin ends the server")
        return lambda: None
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            pass  # an old kernel or a sandbox that forbids it: poll
        else:
            return _watch_descriptor(loop, fd, on_death)
    return _poll(loop, pid, on_death)


def _watch_descriptor(
    loop: asyncio.AbstractEventLoop, fd: int, on_death: Callable[[], None]
) -> Callable[[], None]:
    closed = False

    def stop() -> None:
        nonlocal closed
        if not closed:
            closed = True
            loop.remove_reader(fd)
            os.close(fd)

    def died() -> None:
        stop()
        on_death()

    loop.add_reader(fd, died)
    return stop


def _poll(loop: asyncio.AbstractEventLoop, pid: int, on_death: Callable[[], None]) -> Callable[[], None]:
    async def look() -> None:
        while _alive(pid):
            await asyncio.sleep(POLL_SECONDS)
        on_death()

    task = loop.create_task(look())

    def stop() -> None:
        task.cancel()

    return stop


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # alive, of another user
    except (OSError, OverflowError):
        return False
    return True
