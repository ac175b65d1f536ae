"""Starting the daemon: not too often, and with words when it fails."""

import asyncio
import os
import sys
import threading
from pathlib import Path

import pytest

from engine.client import start
from engine.client.start import StartLimit, start_daemon
from engine.errors import EngineUnavailable, SettingsError


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def test_three_starts_are_free_and_then_each_waits_twice_as_long():
    clock = Clock()
    limit = StartLimit(clock)
    for _ in range(3):
        limit.take()
    for pause in (1, 2, 4, 8, 16, 32, 60, 60):
        clock.now += pause - 0.5
        with pytest.raises(EngineUnavailable, match="it is started again in"):
            limit.take()
        clock.now += 0.5
        limit.take()


def test_a_refused_start_does_not_count():
    clock = Clock()
    limit = StartLimit(clock)
    for _ in range(3):
        limit.take()
    for _ in range(50):
        with pytest.raises(EngineUnavailable):
            limit.take()
    clock.now += 1
    limit.take()


def test_old_starts_are_forgotten():
    clock = Clock()
    limit = StartLimit(clock)
    for _ in range(3):
        limit.take()
    clock.now += limit.FORGET_SECONDS + 1
    for _ in range(3):
        limit.take()


async def test_one_that_ends_without_a_word(daemon_home):
    with pytest.raises(EngineUnavailable, match="ended while it started"):
        await start_daemon(daemon_home.places, [], (sys.executable, "-c", "pass"))


async def test_one_that_cannot_be_run(daemon_home):
    with pytest.raises(EngineUnavailable, match="cannot be started"):
        await start_daemon(daemon_home.places, [], ("/no/such/program",))


async def test_what_crashes_left_is_kept_small(daemon_home):
    folder = daemon_home.home / "logs"
    folder.mkdir(parents=True)
    left = folder / "daemon.err"
    for size, kept in ((50_000, 50_000), (200_000, 0)):
        left.write_bytes(b"x" * size)
        with pytest.raises(EngineUnavailable):
            await start_daemon(daemon_home.places, (), (sys.executable, "-c", ""))
        assert left.stat().st_size == kept


async def test_its_own_words_come_through(daemon_home):
    with pytest.raises(SettingsError, match="threads"):
        await start_daemon(daemon_home.places, ["--threads", "5000"], daemon_home.stand_in)


async def test_a_user_s_project_is_neither_its_folder_nor_its_code(daemon_home, tmp_path, monkeypatch):
    project = tmp_path / "project"
    (project / "engine").mkdir(parents=True)
    (project / "engine/__init__.py").write_text("raise SystemExit('the wrong engine')")
    monkeypatch.chdir(project)
    monkeypatch.delenv("PYTHONPATH")
    await start_daemon(daemon_home.places, [])
    (pid,) = daemon_home.pids()
    assert Path(f"/proc/{pid}/cwd").readlink() == daemon_home.places.folder


async def test_it_has_its_own_session_and_none_of_our_pipes(daemon_home):
    await start_daemon(daemon_home.places, [], daemon_home.stand_in)
    (pid,) = daemon_home.pids()
    assert os.getsid(pid) == pid
    files = {str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in range(3)}
    assert files == {"/dev/null", str(daemon_home.home / "logs/daemon.err")}


async def test_a_caller_who_leaves_while_it_is_started_takes_no_file_along(daemon_home, monkeypatch):
    """A key typed meanwhile cancels the request that starts the daemon, in whatever moment."""
    begun, go, made = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    def slow(*given):
        loop.call_soon_threadsafe(begun.set)
        assert go.wait(30)
        made.append(spawn(*given))
        return made[0]

    spawn = start._spawn
    monkeypatch.setattr(start, "_spawn", slow)
    starting = asyncio.create_task(start_daemon(daemon_home.places, [], daemon_home.stand_in))
    await begun.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    go.set()

    def is_open():
        try:
            os.fstat(made[0][1])
        except OSError:
            return False
        return True

    while not made or is_open():
        await asyncio.sleep(0.01)
    assert made[0][0].pid in daemon_home.pids()
