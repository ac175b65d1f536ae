"""Pulling from sources that work, fail, lie, stop in the middle or meet a full disk."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import textwrap
from collections import namedtuple
from pathlib import Path

import pytest

from engine.catalogue.digest import remembered_sha256
from engine.catalogue.partial import DiskFullError
from engine.catalogue.places import staging_dir, store_path
from engine.catalogue.pull import pull, pulling
from engine.catalogue.source import SourceError
from engine.errors import DownloadError, HearthError, SettingsError

Usage = namedtuple("Usage", "total used free")


def test_the_first_good_source_gives_the_model(entry, content, fake_source, broken_source, recorder):
    unused = fake_source(label="unused")
    path = pull(entry, sources=[broken_source, fake_source(), unused], report=recorder)
    assert path == store_path(entry)
    assert path.read_bytes() == content
    assert unused.starts == []
    assert recorder.notes == ["broken: the door is shut."]
    assert recorder.steps[-1] == ("downloading", len(content), len(content))
    assert remembered_sha256(path) == entry.sha256
    assert not staging_dir(entry).exists()


def test_a_model_already_here_is_not_fetched(entry, fake_source):
    pull(entry, sources=[fake_source()])
    again = fake_source()
    pull(entry, sources=[again])
    assert again.starts == []


def test_files_and_folders_are_private(entry, fake_source, home):
    path = pull(entry, sources=[fake_source()])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (home, home / "data", home / "data" / "models", home / "data" / "models" / ".staging"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_error_names_every_source_and_its_reason(entry, content, fake_source, broken_source):
    wrong = fake_source(content[:-1] + b"?", label="liar")
    short = fake_source(content[:-5], label="short")
    with pytest.raises(DownloadError) as caught:
        pull(entry, sources=[broken_source, wrong, short])
    what = caught.value.what
    assert "broken: the door is shut" in what
    assert "liar: it gave a wrong file" in what
    assert f"short: it ended after {len(content) - 5:,} of {len(content):,} bytes" in what
    assert "hearth models pull tiny" in caught.value.action
    assert "HEARTH_MODEL_PATH" in caught.value.action


def test_a_wrong_file_is_deleted_and_the_next_source_used(entry, content, fake_source, recorder):
    wrong = fake_source(b"x" * len(content), label="liar")
    path = pull(entry, sources=[wrong, fake_source()], report=recorder)
    assert path.read_bytes() == content
    assert "liar: it gave a wrong file" in recorder.notes[0]


def test_a_wrong_file_leaves_nothing_behind(entry, content, fake_source):
    with pytest.raises(DownloadError):
        pull(entry, sources=[fake_source(b"x" * len(content))])
    assert not store_path(entry).exists()
    assert list(staging_dir(entry).rglob("data")) == []


def test_a_source_that_gives_too_much_is_stopped_and_its_bytes_deleted(entry, content, fake_source):
    with pytest.raises(DownloadError, match="more than the"):
        pull(entry, sources=[fake_source(content + b"!")])
    assert list(staging_dir(entry).rglob("data")) == []


@pytest.mark.parametrize("error", [SourceError("the line broke"), KeyboardInterrupt(), RuntimeError("bug")])
def test_a_stopped_pull_goes_on_where_it_was(entry, content, fake_source, stop_at, error, recorder):
    with pytest.raises((DownloadError, KeyboardInterrupt, RuntimeError)):
        pull(entry, sources=[fake_source(before_chunk=stop_at(4000, error))])
    again = fake_source()
    path = pull(entry, sources=[again], report=recorder)
    assert again.starts == [4000]
    assert path.read_bytes() == content
    assert recorder.notes == [f"Going on after 4,000 bytes of {len(content):,} bytes."]
    assert recorder.steps[0][0] == "checking"


def test_each_source_goes_on_from_its_own_bytes(entry, content, fake_source, stop_at):
    first = fake_source(label="first", before_chunk=stop_at(4000, SourceError("off")))
    second = fake_source(label="second", before_chunk=stop_at(2000, SourceError("off")))
    with pytest.raises(DownloadError):
        pull(entry, sources=[first, second])
    with pytest.raises(DownloadError):
        pull(entry, sources=[first, second])
    assert first.starts == [0, 4000]
    assert second.starts == [0, 2000]


def test_a_poisoned_partial_file_is_found_by_the_hash_and_then_fetched_anew(
    entry, content, fake_source, stop_at
):
    with pytest.raises(DownloadError):
        pull(entry, sources=[fake_source(before_chunk=stop_at(4000, SourceError("off")))])
    (data,) = staging_dir(entry).rglob("data")
    data.write_bytes(b"?" * 4000)
    with pytest.raises(DownloadError, match="wrong file"):
        pull(entry, sources=[fake_source()])
    assert pull(entry, sources=[fake_source()]).read_bytes() == content


def test_a_damaged_copy_is_replaced(entry, content, fake_source, recorder):
    path = pull(entry, sources=[fake_source()])
    path.write_bytes(content[:100])
    assert pull(entry, sources=[fake_source()], report=recorder).read_bytes() == content
    assert "100 bytes" in recorder.notes[0]


def test_a_damaged_copy_does_not_take_room_while_no_source_works(entry, content, fake_source, broken_source):
    path = pull(entry, sources=[fake_source()])
    path.write_bytes(content[:100])
    with pytest.raises(DownloadError, match="it has 100 bytes"):
        pull(entry, sources=[broken_source])
    assert not path.exists()


def test_a_copy_with_flipped_bits_is_replaced(entry, content, fake_source):
    path = pull(entry, sources=[fake_source()])
    path.write_bytes(content[:-1] + b"?")
    assert pull(entry, sources=[fake_source()]).read_bytes() == content


def test_too_little_disk_is_told_with_numbers_before_anything_is_fetched(entry, fake_source, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 10**9 - 5_000_000, 5_000_000))
    source = fake_source()
    with pytest.raises(DownloadError) as caught:
        pull(entry, sources=[source])
    assert source.starts == []
    assert "67.1 MB are needed, 5.0 MB are free" in caught.value.what
    assert "HEARTH_HOME" in caught.value.action


def test_room_for_the_source_itself_is_counted(entry, fake_source, monkeypatch):
    free = len(fake_source().content) + (64 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**12, 0, free))
    source = fake_source()
    source.spare_bytes = 1
    with pytest.raises(DownloadError, match="not enough room"):
        pull(entry, sources=[source])
    source.spare_bytes = 0
    assert pull(entry, sources=[source]).exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_while_writing_loses_nothing(
    entry, content, fake_source, stop_at, broken_source, number
):
    def fill(target):
        if target.offset >= 3000:
            real = target._file

            class Full:
                def write(self, view):
                    raise OSError(number, os.strerror(number))

                def __getattr__(self, name):
                    return getattr(real, name)

            target._file = Full()

    after = fake_source(label="after")
    with pytest.raises(DownloadError) as caught:
        pull(entry, sources=[broken_source, fake_source(before_chunk=fill), after])
    assert isinstance(caught.value.__cause__, DiskFullError)
    assert "broken: the door is shut" in caught.value.what
    assert after.starts == []
    again = fake_source()
    assert pull(entry, sources=[again]).read_bytes() == content
    assert again.starts == [3000]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the /dev/full device (Linux)")
def test_a_real_full_device(entry, fake_source):
    def swap(target):
        target._file.close()
        target._file = Path("/dev/full").open("r+b", buffering=0)  # noqa: SIM115 (the target closes it)

    with pytest.raises(DownloadError, match="No space left on device"):
        pull(entry, sources=[fake_source(before_chunk=swap)])


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, where nobody can make a folder (Linux)")
def test_a_home_that_cannot_be_made_is_told(entry, fake_source, monkeypatch):
    monkeypatch.setenv("HEARTH_HOME", "/proc/hearth")
    with pytest.raises(SettingsError) as caught:
        pull(entry, sources=[fake_source()])
    assert "/proc/hearth" in caught.value.what
    assert "HEARTH_HOME" in caught.value.action


def test_a_file_in_the_way_of_the_home_is_told(entry, fake_source, home):
    home.write_text("not a folder")
    with pytest.raises(SettingsError) as caught:
        pull(entry, sources=[fake_source()])
    assert str(home) in caught.value.what
    assert "HEARTH_HOME" in caught.value.action


def test_a_local_error_of_the_disk_is_told(entry, fake_source, stop_at):
    broken_disk = stop_at(2000, OSError(errno.EIO, "Input/output error", "/somewhere/data"))
    with pytest.raises(DownloadError, match=r"/somewhere/data: Input/output error"):
        pull(entry, sources=[fake_source(before_chunk=broken_disk)])


def test_a_second_puller_that_will_not_wait_is_told(entry):
    with (
        pulling(entry),
        pytest.raises(HearthError, match="Another Hearth process"),
        pulling(entry, wait=False),
    ):
        pass


PULLER = """
import hashlib, sys
from engine.catalogue.entry import ModelEntry
from engine.catalogue.pull import pull
from engine.catalogue.report import Silent

CONTENT = b"GGUF" + bytes(range(256)) * 40
entry = ModelEntry("tiny", "Tiny", "", "", "tiny.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())

class Source:
    kind = label = "fake"
    spare_bytes = 0
    def fetch(self, target, report):
        print("fetching", flush=True)
        sys.stdin.readline()
        target.append(CONTENT[target.offset:])

class Told(Silent):
    def note(self, text):
        print("note:", text, flush=True)

pull(entry, sources=[Source()], report=Told())
print("done", flush=True)
"""


def _puller():
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PULLER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )


def test_two_processes_fetch_a_model_once(entry, content):
    with _puller() as first:
        assert first.stdout.readline() == "fetching\n"
        with _puller() as second:
            assert second.stdout.readline().startswith("note: Another Hearth process is fetching tiny")
            first.communicate("go\n")
            output, _ = second.communicate()
    assert output == "done\n"  # without fetching
    assert store_path(entry).read_bytes() == content


def test_a_killed_process_frees_the_model(entry, content):
    with _puller() as first:
        assert first.stdout.readline() == "fetching\n"
        first.kill()
        first.communicate()
    with _puller() as second:
        output, _ = second.communicate("go\n")
    assert output == "fetching\ndone\n"
