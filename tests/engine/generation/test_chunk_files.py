"""Files of chunks among crashes, foreign files, full disks and other processes."""

import errno
import os
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import SettingsError
from engine.generation import chunk_files
from engine.generation.chunk_files import HEADER, ChunkFiles

PAYLOAD = 1000
A, B, C = (bytes([n]) * 32 for n in (1, 2, 3))


def payload(seed):
    return np.random.default_rng(seed).integers(0, 256, PAYLOAD, np.uint8)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kv"


@pytest.fixture
def files(folder):
    return ChunkFiles(folder, 10 * (PAYLOAD + HEADER.size))


def put(files, key, seed=0, depth=0):
    files.write(key, payload(seed).data)
    files.touch(key, depth)


def only_file(folder):
    (path,) = folder.iterdir()
    return path


def test_what_was_written_is_read_back(files, folder):
    put(files, A, 1)
    put(files, B, 2)
    assert np.array_equal(files.read(A, PAYLOAD), payload(1))
    assert np.array_equal(files.read(B, PAYLOAD), payload(2))
    assert files.read(C, PAYLOAD) is None
    assert ChunkFiles(folder, 1).scan() == {A, B}


def test_files_and_folder_are_the_users_alone(files, folder):
    put(files, A)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(folder).stat().st_mode) == 0o600


def test_a_folder_that_was_open_to_others_is_closed_and_a_strange_one_refused(tmp_path):
    folder = tmp_path / "kv"
    folder.mkdir(mode=0o755)
    ChunkFiles(folder, 1)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(SettingsError, match="not a folder"):
        ChunkFiles(link, 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError):
        ChunkFiles(tmp_path / "file", 1)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_damaged_file_counts_as_absent_and_is_deleted(files, folder, data):
    put(files, A)
    path = only_file(folder)
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    damage = data.draw(st.sampled_from(["flip", "cut", "longer"]))
    if damage == "flip":
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    else:
        path.write_bytes(whole[:place] if damage == "cut" else whole + whole[: place + 1])
    assert files.read(A, PAYLOAD) is None
    assert not path.exists()


def test_a_file_under_another_chunks_name_or_of_another_size_is_not_taken(files, folder):
    put(files, A)
    only_file(folder).rename(folder / f"{B.hex()}.kv")
    assert files.read(B, PAYLOAD) is None
    put(files, A)
    assert files.read(A, PAYLOAD - 1) is None
    assert files.scan() == set()


def test_foreign_names_are_left_alone(files, folder):
    put(files, A)
    foreign = [folder / "notes.txt", folder / "xyz.kv", folder / f"{A.hex().upper()[:-2]}AA.kv"]
    for path in foreign:
        path.write_text("mine")
    (folder / f"{C.hex()}.kv").mkdir()
    assert files.scan() == {A}
    assert files.read(C, PAYLOAD) is None
    files.purge()
    assert all(path.exists() for path in foreign)


def test_the_limit_is_kept_by_deleting_what_was_used_longest_ago(files, monkeypatch):
    now = [10**18]
    monkeypatch.setattr(chunk_files.time, "time_ns", lambda: now[0])
    keys = [bytes([n]) * 32 for n in range(12)]
    for key in keys:
        now[0] += 10**9
        put(files, key)
        if key == keys[5]:
            files.touch(keys[0], 0)
        files.trim()
    left = files.scan()
    assert len(left) <= 10
    assert keys[0] in left
    assert keys[1] not in left
    assert set(keys[6:]) <= left


def test_issue_452_a_chunk_never_outlives_those_before_it(files, monkeypatch):
    monkeypatch.setattr(chunk_files.time, "time_ns", lambda: 10**18)
    keys = [bytes([n]) * 32 for n in range(12)]
    for depth, key in enumerate(keys):
        put(files, key, depth=depth)
    left = files.trim()
    assert left == set(keys[: len(left)])
    assert len(left) == 9


def test_within_the_limit_nothing_is_deleted(files):
    put(files, A)
    assert files.trim() is None


def test_issue_380_a_write_that_fails_leaves_nothing(files, folder, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(chunk_files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        put(files, A)
    assert list(folder.iterdir()) == []


def test_what_a_killed_write_left_is_deleted_once_it_is_old(files, folder):
    fresh, old = folder / "a.new", folder / "b.new"
    for path in (fresh, old):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    assert files.scan() == set()
    assert fresh.exists()
    assert not old.exists()


def test_purge_deletes_every_chunk_and_every_rest(files, folder):
    put(files, A)
    put(files, B)
    (folder / "a.new").write_bytes(b"half")
    assert files.purge() == 2 * (PAYLOAD + HEADER.size)
    assert list(folder.iterdir()) == []
    assert files.bytes == 0


WRITER = """
import sys, numpy as np
from pathlib import Path
from engine.generation.chunk_files import ChunkFiles
files = ChunkFiles(Path(sys.argv[1]), 40_000)
for turn in range(150):
    n = (turn * int(sys.argv[2])) % 60
    key = bytes([n]) * 32
    found = files.read(key, 1000)
    assert found is None or set(found.tolist()) == {n}, "wrong bytes"
    files.write(key, np.full(1000, n, np.uint8).data)
    files.touch(key, n % 3)
    files.trim()
"""


def test_two_processes_on_one_folder_never_read_wrong_bytes(folder):
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(folder)]
    writers = [subprocess.Popen([*command, step]) for step in ("7", "11")]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    files = ChunkFiles(folder, 40_000)
    for key in files.scan():
        assert set(files.read(key, 1000).tolist()) == {key[0]}


KILLED = """
import sys, numpy as np
from pathlib import Path
from engine.generation.chunk_files import ChunkFiles
files = ChunkFiles(Path(sys.argv[1]), 1 << 30)
for n in range(256):
    files.write(bytes([n]) * 32, np.full(1000, n, np.uint8).data)
    print(n, flush=True)
"""


@pytest.mark.parametrize("after", [1, 5, 20])
def test_a_writer_killed_at_any_moment_leaves_only_whole_chunks(folder, after):
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        for _ in range(after):
            writer.stdout.readline()
        writer.kill()
    files = ChunkFiles(folder, 1 << 30)
    keys = files.scan()
    assert len(keys) >= after
    for key in keys:
        assert set(files.read(key, 1000).tolist()) == {key[0]}
