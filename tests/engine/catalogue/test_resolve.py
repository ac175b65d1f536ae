"""From a name or path to a file that may be loaded, and the memory of hashes behind it."""

import dataclasses
import json
import os

import pytest

from engine import paths
from engine.catalogue import digest, entries, lookup
from engine.catalogue.entry import HubFile
from engine.catalogue.places import staging_dir, store_path
from engine.catalogue.pull import pull
from engine.catalogue.status import ModelState, status_of, verify
from engine.client.models import resolve
from engine.errors import ModelFileError


@pytest.fixture(autouse=True)
def catalogue(entry, monkeypatch):
    """A catalogue of one model."""
    monkeypatch.setattr(lookup, "BUILT_IN", (entry,))


@pytest.fixture
def hashed(monkeypatch):
    """Paths that were read through to be hashed."""
    seen = []
    real = digest.sha256_file
    monkeypatch.setattr(
        digest, "sha256_file", lambda path, on_bytes: seen.append(path) or real(path, on_bytes)
    )
    return seen


def put(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_pulled_model_resolves_without_hashing_again(entry, fake_source, hashed):
    path = pull(entry, sources=[fake_source()])
    assert resolve("tiny") == path
    assert hashed == []


def test_an_absent_model_names_the_command_and_the_size(entry):
    with pytest.raises(ModelFileError) as caught:
        resolve("tiny")
    assert "not on this machine" in caught.value.what
    assert "`hearth models pull tiny` (10,244 bytes to fetch)" in caught.value.action


def test_resolving_makes_no_folder(home):
    with pytest.raises(ModelFileError):
        resolve("tiny")
    assert not home.exists()


def test_a_partial_model_is_told_as_such(entry, fake_source, stop_at):
    with pytest.raises(KeyboardInterrupt):
        pull(entry, sources=[fake_source(before_chunk=stop_at(4000, KeyboardInterrupt()))])
    with pytest.raises(ModelFileError, match="not complete: 4,000 bytes of 10,244 bytes"):
        resolve("tiny")
    assert status_of(entry).state is ModelState.PARTIAL


def test_a_folder_of_the_user_is_used_in_place_and_hashed_once(entry, content, tmp_path, monkeypatch, hashed):
    mine = put(tmp_path / "my models" / "tiny.gguf", content)
    monkeypatch.setenv("HEARTH_MODEL_PATH", f"{tmp_path / 'none'}{os.pathsep}{mine.parent}")
    assert status_of(entry).state is ModelState.READY
    assert not status_of(entry).verified
    assert resolve("tiny") == mine
    assert resolve("tiny") == mine
    assert hashed == [mine]
    assert status_of(entry).verified
    assert pull(entry, sources=[]) == mine


def test_a_folder_from_a_setting_is_used(content, tmp_path):
    mine = put(tmp_path / "mine" / "tiny.gguf", content)
    assert resolve("tiny", folders=[mine.parent]) == mine


def test_the_hub_cache_is_used_in_place(entry, content, tmp_path, monkeypatch):
    entry = dataclasses.replace(entry, sources=(HubFile("someone/tiny", "Tiny.Q4.gguf"),))
    monkeypatch.setattr(lookup, "BUILT_IN", (entry,))
    blob = put(tmp_path / "hub-cache" / "models--someone--tiny" / "blobs" / "1", content)
    link = tmp_path / "hub-cache" / "models--someone--tiny" / "snapshots" / "abc" / "Tiny.Q4.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(blob)
    assert resolve("tiny") == link


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: data[:-1] + b"?", lambda data: b""])
def test_a_damaged_model_is_told_with_its_mending(entry, content, fake_source, damage):
    pull(entry, sources=[fake_source()]).write_bytes(damage(content))
    with pytest.raises(ModelFileError) as caught:
        resolve("tiny")
    assert "damaged" in caught.value.what
    assert str(store_path(entry)) in caught.value.what
    assert caught.value.action == "Run `hearth models pull tiny`."
    assert status_of(entry).state is ModelState.DAMAGED


def test_a_damaged_copy_of_the_user_is_never_deleted(entry, content, tmp_path, monkeypatch, fake_source):
    mine = put(tmp_path / "mine" / "tiny.gguf", b"?" + content[1:])
    monkeypatch.setenv("HEARTH_MODEL_PATH", str(mine.parent))
    assert pull(entry, sources=[fake_source()]) == store_path(entry)
    assert mine.exists()
    assert resolve("tiny") == store_path(entry)


def test_verify_reads_the_disk_whatever_is_remembered(entry, content, fake_source):
    path = pull(entry, sources=[fake_source()])
    times = path.stat()
    with path.open("r+b") as file:
        file.seek(500)
        file.write(b"????")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert resolve("tiny") == path  # the memory is deceived: same size, time and inode
    assert verify(entry).state is ModelState.DAMAGED
    with pytest.raises(ModelFileError, match="damaged"):
        resolve("tiny")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 1}', "null"])
def test_a_lost_or_broken_memory_only_costs_time(entry, fake_source, hashed, text):
    path = pull(entry, sources=[fake_source()])
    (paths.state_dir() / "verified.json").write_text(text)
    assert resolve("tiny") == path
    assert hashed == [path]
    assert json.loads((paths.state_dir() / "verified.json").read_text())[str(path)][-1] == entry.sha256


def test_an_unknown_name_suggests_a_near_one():
    with pytest.raises(ModelFileError) as caught:
        resolve("tinny")
    assert "Did you mean tiny?" in caught.value.action


def test_a_path_to_a_gguf_resolves(tmp_path, content, monkeypatch):
    path = put(tmp_path / "x.gguf", content)
    monkeypatch.chdir(tmp_path)
    assert resolve(str(path)) == resolve(path) == resolve("x.gguf") == path


@pytest.mark.parametrize(
    ("data", "told"), [(None, "There is no model file"), (b"", "is empty"), (b"GGU", "is not a GGUF")]
)
def test_a_path_to_something_else_is_told(tmp_path, data, told):
    path = tmp_path / "x.gguf"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ModelFileError, match=told):
        resolve(str(path))


def test_a_path_to_a_folder_is_told(tmp_path):
    with pytest.raises(ModelFileError, match="is not a file"):
        resolve(tmp_path)


def test_unfinished_folders_of_other_models_do_not_matter(entry, home):
    put(staging_dir(entry).parent / "other" / "fake" / "data", b"12345")
    assert status_of(entry).state is ModelState.ABSENT


def test_the_built_in_entries_are_complete():
    names = [built_in.id for built_in in entries.BUILT_IN]
    assert names == ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", "smollm2-135m"]
    assert names[0] == entries.DEFAULT_MODEL
    for built_in in entries.BUILT_IN:
        assert built_in.licence
        assert built_in.base_repo
        assert len(built_in.sha256) == 64
        hub, packages = built_in.sources
        assert hub.file.endswith(".gguf")
        assert all("==" in package for package in packages.packages)
        count = len(packages.packages)
        assert packages.part_bytes * (count - 1) < built_in.bytes <= packages.part_bytes * count
