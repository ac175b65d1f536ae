"""Folders that Hearth cannot use, and the commands that mend them."""

import os
import pwd
from pathlib import Path

import pytest

from engine.errors import SettingsError
from engine.service import folders
from engine.service.folders import check_folder, room

ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def deny(monkeypatch):
    """deny(path, mode): this user may not do that there, even if it is root."""

    def make(path, mode=os.W_OK):
        monkeypatch.setattr(
            folders.os, "access", lambda asked, wanted: not (Path(asked) == path and wanted & mode)
        )

    return make


def told(folder, **how):
    with pytest.raises(SettingsError) as caught:
        check_folder(folder, **how)
    return caught.value.what, caught.value.action


def test_one_that_can_be_used_and_one_that_can_be_made(tmp_path):
    check_folder(tmp_path, private=True)
    check_folder(tmp_path / "a/b/c", private=True)
    assert not (tmp_path / "a").exists()


def test_ones_own_permissions(tmp_path, deny):
    deny(tmp_path)
    assert told(tmp_path)[1] == f"Run: chmod u+rwx {tmp_path}"
    assert told(tmp_path / "below/it")[1] == f"Run: chmod u+rwx {tmp_path}"
    check_folder(tmp_path / "below", writes=False)  # it need not be there


def test_a_file_or_a_broken_link_in_the_way(tmp_path):
    (tmp_path / "a file").write_text("x")
    for folder in (tmp_path / "a file", tmp_path / "a file/below"):
        assert told(folder)[1] == f"Run: mv '{tmp_path}/a file' '{tmp_path}/a file.old'"
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    assert "is a link to nothing" in told(tmp_path / "link/below")[0]


def test_a_link_to_itself(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert f"{tmp_path}/loop cannot be used" in told(tmp_path / "loop/below")[0]


def test_another_users(tmp_path, deny, monkeypatch):
    monkeypatch.setattr(folders.os, "getuid", lambda: 4_000_000)
    folder = tmp_path / "theirs"
    folder.mkdir()
    check_folder(folder)  # shared with this user
    what, action = told(folder, private=True)
    assert what == f"The folder {folder} belongs to {ME}, and Hearth cannot use it."
    assert action.startswith(f"Run: sudo chown -R 4000000 {folder}; or set HEARTH_HOME")
    deny(folder)
    assert told(folder)[1] == action
    # Of what lies below another's folder only the first that is missing can be made.
    assert f"sudo install -d -m 700 -o 4000000 {folder}/a; or" in told(folder / "a/b")[1]
    deny(folder, os.X_OK)
    assert told(folder / "a/b")[1] == "Now set HEARTH_HOME to a folder of your own."


def test_a_disk_that_can_only_be_read(tmp_path, deny, monkeypatch):
    real = os.statvfs(tmp_path)

    class ReadOnly:
        f_flag = real.f_flag | os.ST_RDONLY

    monkeypatch.setattr(folders.os, "statvfs", lambda path: ReadOnly)
    deny(tmp_path)
    what, action = told(tmp_path)
    assert "a disk that can only be read" in what
    assert "on another disk" in action


def test_room_is_that_of_the_nearest_folder_that_is_there(tmp_path):
    assert room(tmp_path / "a/b") == room(tmp_path) > 0
