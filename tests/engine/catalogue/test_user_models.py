"""Models that the user adds: by reference, with a recorded hash, never written or deleted."""

import hashlib

import pytest

from engine import paths
from engine.catalogue.user import user_entries
from engine.client.models import add, list_models, pull, remove, resolve, verify, what_remove_deletes
from engine.errors import DownloadError, ModelFileError, SettingsError


@pytest.fixture
def mine(tmp_path, content):
    path = tmp_path / "mine.gguf"
    path.write_bytes(content)
    return path


def test_an_added_model_resolves_lists_and_verifies(mine, content):
    status = add("mine", mine)
    assert status.sha256 == hashlib.sha256(content).hexdigest()
    assert (status.state, status.path, status.verified) == ("ready", str(mine), True)
    assert resolve("mine") == mine
    assert list_models()[-1].id == "mine"
    assert verify("mine").state == "ready"
    assert pull("mine").path == str(mine)


def test_a_relative_path_is_recorded_whole(mine, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert add("mine", mine.relative_to(tmp_path)).path == str(mine)


def test_removing_forgets_the_name_and_keeps_the_file(mine):
    add("mine", mine)
    assert what_remove_deletes("mine") == []
    assert remove("mine") == []
    assert mine.exists()
    assert user_entries() == ()
    with pytest.raises(ModelFileError, match="no model 'mine'"):
        resolve("mine")


def test_a_changed_file_is_refused_until_it_is_added_again(mine):
    add("mine", mine)
    mine.write_bytes(b"GGUF, but another")
    with pytest.raises(ModelFileError) as caught:
        resolve("mine")
    assert "hearth models remove mine" in caught.value.action
    with pytest.raises(DownloadError, match="your own file"):
        pull("mine")
    assert mine.exists()
    remove("mine")
    add("mine", mine)
    assert resolve("mine") == mine


def test_a_file_that_is_gone_is_told(mine):
    add("mine", mine)
    mine.unlink()
    with pytest.raises(ModelFileError, match="is gone"):
        resolve("mine")
    assert list_models()[-1].state == "absent"


def test_the_expected_hash_is_checked(mine, content):
    right = hashlib.sha256(content).hexdigest()
    with pytest.raises(ModelFileError, match="has the SHA-256"):
        add("mine", mine, "0" * 64)
    with pytest.raises(ModelFileError, match="is not a SHA-256"):
        add("mine", mine, "0" * 63)
    assert user_entries() == ()
    assert add("mine", mine, right.upper()).state == "ready"


@pytest.mark.parametrize("name", ["", "Big", "a b", "../up", "-x", "a" * 65, "é"])
def test_names_that_cannot_be_used(mine, name):
    with pytest.raises(ModelFileError, match="cannot be the name"):
        add(name, mine)


def test_taken_names(mine):
    with pytest.raises(ModelFileError, match="comes with Hearth"):
        add("smollm2-135m", mine)
    add("mine", mine)
    with pytest.raises(ModelFileError, match="already a model mine"):
        add("mine", mine)


def test_a_file_that_is_no_gguf(tmp_path):
    other = tmp_path / "x.gguf"
    other.write_bytes(b"PK\x03\x04")
    with pytest.raises(ModelFileError, match="is not a GGUF file"):
        add("mine", other)
    with pytest.raises(ModelFileError, match="There is no model file"):
        add("mine", tmp_path / "none.gguf")


@pytest.mark.parametrize(
    "text", ["{", "{}", "[1]", '[{"id": "x"}]', '[{"id": "A!", "path": "/x", "bytes": 1, "sha256": ""}]']
)
def test_a_broken_list_is_told_never_overwritten(mine, text):
    listed = paths.data_dir() / "user_models.json"
    listed.write_text(text)
    for call in (list_models, lambda: add("mine", mine), lambda: resolve("mine")):
        with pytest.raises(SettingsError, match=r"user_models\.json, cannot be read"):
            call()
    assert listed.read_text() == text
    with pytest.raises(ModelFileError, match="not on this machine"):
        resolve("smollm2-135m")  # Hearth's own models do not depend on it
