"""The folder and the socket's path: private, ours, and short enough; and the kernel's locks."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from engine import paths
from engine.errors import SettingsError
from engine.service.lock import Lock
from engine.service.places import answers, check_private, find_places

ROOT = Path(__file__).parents[3]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv(paths.HOME_VARIABLE, str(tmp_path / "h"))
    return tmp_path / "h"


def test_the_folder_is_private(home):
    places = find_places()
    assert places.folder == home / "run"
    assert places.folder.stat().st_mode & 0o777 == 0o700


def test_a_path_too_long_for_a_socket_gets_a_short_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv(paths.HOME_VARIABLE, str(tmp_path / ("d" * 120)))
    places = find_places()
    try:
        assert len(os.fsencode(places.socket)) <= 103
        assert places == find_places()
        assert places.socket.parent.stat().st_mode & 0o777 == 0o700
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(places.socket))
            listener.listen()
            assert answers(places.socket)
        assert not answers(places.socket)  # the file is left, nobody listens
        places.socket.unlink()
    finally:
        places.socket.parent.rmdir()


def test_two_long_homes_have_two_sockets(tmp_path, monkeypatch):
    found = set()
    for name in ("a" * 120, "b" * 120):
        monkeypatch.setenv(paths.HOME_VARIABLE, str(tmp_path / name))
        found.add(find_places().socket)
    for path in found:
        path.parent.rmdir()
    assert len(found) == 2


def test_without_a_home_the_system_s_folder_for_this_user_is_taken(monkeypatch, tmp_path):
    monkeypatch.delenv(paths.HOME_VARIABLE, raising=False)
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    folder = paths.runtime_dir()
    assert folder.name == "hearth"
    assert folder.stat().st_uid == os.getuid()
    check_private(folder)


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_may_enter_is_refused_with_its_fix(home, mode):
    folder = find_places().folder
    folder.chmod(mode)
    with pytest.raises(SettingsError) as caught:
        find_places()
    assert f"chmod 700 '{folder}'" in caught.value.action
    folder.chmod(0o700)
    find_places()


def test_another_user_s_folder_is_refused(home, monkeypatch):
    find_places()
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(SettingsError, match="another user"):
        find_places()


def test_a_link_in_the_folder_s_place_is_refused(home, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    home.mkdir(mode=0o700)
    (home / "run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match="not a folder"):
        find_places()


def test_a_folder_that_cannot_be_made_is_told(monkeypatch):
    monkeypatch.setenv(paths.HOME_VARIABLE, "/proc/hearth")
    with pytest.raises(SettingsError, match="cannot make its folder"):
        find_places()


def test_nothing_is_made_when_only_looked_at(home):
    find_places(create=False)
    assert not home.exists()


def test_a_lock_has_one_holder(tmp_path):
    with Lock(tmp_path / "lock") as first, Lock(tmp_path / "lock") as second:
        assert first.try_take()
        assert not second.try_take()
    with Lock(tmp_path / "lock") as third:
        assert third.try_take()


def test_a_killed_holder_leaves_no_lock(tmp_path):
    code = (
        "import sys; from pathlib import Path; from engine.service.lock import Lock\n"
        "lock = Lock(Path(sys.argv[1])); assert lock.try_take(); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with holder, Lock(tmp_path / "lock") as lock:
        assert holder.stdout.readline() == b"held\n"
        assert not lock.try_take()
        holder.send_signal(signal.SIGKILL)
        lock.take()
        assert holder.wait() == -signal.SIGKILL
