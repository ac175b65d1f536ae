"""An unfinished download survives any stop: what it says is here is here, and hashed right."""

import hashlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.catalogue import partial
from engine.catalogue.partial import PartialFile, TooLongError, unfinished_bytes

CONTENT = bytes(range(256)) * 8

runs = st.lists(
    st.tuples(
        st.lists(st.integers(1, 300), max_size=6),  # chunk sizes
        st.sampled_from(["leave", "crash", "new part", "rewind", "restart"]),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=50)
@given(runs)
def test_offset_and_hash_are_right_after_any_history(history):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(partial, "_NOTE_EVERY", 500)
        staging = Path(folder) / "staging"
        for sizes, ending in history:
            target = PartialFile(staging, len(CONTENT), "it")
            assert target.sha256() == hashlib.sha256(CONTENT[: target.offset]).hexdigest()
            assert 0 <= target.part_start <= target.offset
            for size in sizes:
                target.append(CONTENT[target.offset : target.offset + size])
            if ending == "new part":
                target.start_part(target.part + 1)
            elif ending == "rewind":
                target.rewind_part()
                assert target.offset == target.part_start
            elif ending == "restart":
                target.restart()
                assert target.offset == 0
            assert target.sha256() == hashlib.sha256(CONTENT[: target.offset]).hexdigest()
            if ending == "crash":
                target._file.close()  # as a killed process leaves it: no last note
            else:
                offset = target.offset
                target.__exit__(None, None, None)
                with PartialFile(staging, len(CONTENT), "it") as again:
                    assert again.offset == offset


def test_another_identity_begins_anew(tmp_path):
    with PartialFile(tmp_path, 100, "one") as target:
        target.append(b"x" * 50)
    with PartialFile(tmp_path, 100, "two") as target:
        assert target.offset == 0
        assert target.path.stat().st_size == 0


@pytest.mark.parametrize(
    "note",
    [
        "{",
        "[]",
        '{"identity": "it"}',
        '{"identity": "it", "part": 0, "part_start": 0, "offset": 51}',
        '{"identity": "it", "part": 0, "part_start": 20, "offset": 10}',
        '{"identity": "it", "part": -1, "part_start": 0, "offset": 10}',
        '{"identity": "it", "part": 0, "part_start": "0", "offset": 10}',
    ],
)
def test_a_note_that_cannot_be_true_begins_anew(tmp_path, note):
    with PartialFile(tmp_path, 100, "it") as target:
        target.append(b"x" * 50)
    (tmp_path / "progress.json").write_text(note)
    with PartialFile(tmp_path, 100, "it") as target:
        assert target.offset == 0


def test_more_than_the_model_is_refused_before_it_is_written(tmp_path):
    with PartialFile(tmp_path, 10, "it") as target:
        target.append(b"x" * 9)
        with pytest.raises(TooLongError):
            target.append(b"xy")
        assert target.path.stat().st_size == 9


def test_nothing_received_leaves_nothing(tmp_path):
    with PartialFile(tmp_path / "model" / "source", 10, "it"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_unfinished_bytes_is_the_largest(tmp_path):
    for kind, size in (("a", 10), ("b", 30)):
        with PartialFile(tmp_path / kind, 100, "it") as target:
            target.append(b"x" * size)
    assert unfinished_bytes(tmp_path) == 30
    assert unfinished_bytes(tmp_path / "none") == 0
