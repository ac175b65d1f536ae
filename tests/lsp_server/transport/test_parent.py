import asyncio
import os
import sys

import pytest

from lsp_server.transport import parent

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="on Windows the end of stdin tells")


async def start_child():
    """A process of ours. Started before a test takes pidfd_open away: since 3.12 asyncio uses it as well."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-c", "import sys; sys.stdin.read()", stdin=asyncio.subprocess.PIPE
    )


@pytest.mark.parametrize("way", ["descriptor", "polling"])
async def test_a_death_is_noticed_once(way, monkeypatch):
    child = await start_child()
    if way == "polling":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
        monkeypatch.setattr(parent, "POLL_SECONDS", 0.01)
    dead = asyncio.Event()
    parent.watch(child.pid, dead.set)
    assert not dead.is_set()
    assert child.stdin is not None
    child.stdin.close()
    await child.wait()
    await dead.wait()


@pytest.mark.parametrize("way", ["descriptor", "polling"])
async def test_after_stop_nothing_is_told_and_stop_may_come_twice(way, monkeypatch):
    child = await start_child()
    if way == "polling":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    told = []
    stop = parent.watch(child.pid, lambda: told.append(1))
    stop()
    stop()
    child.kill()
    await child.wait()
    await asyncio.sleep(0)
    assert told == []


@pytest.mark.parametrize("pid", [2**22 + 1, 2**70])
async def test_a_process_that_is_not_there_is_not_watched(pid):
    told = []
    stop = parent.watch(pid, lambda: told.append(1))
    stop()
    await asyncio.sleep(0)
    assert told == []
