"""A model file that another program writes to: after loading, never a crash and never a wrong logit."""

import os
from pathlib import Path

import numpy as np
import pytest

from engine import _native


@pytest.fixture
def loaded(tiny_model, runner, tmp_path):
    """loaded(**options): the path of a fresh copy of a tiny model, and a Runner of it."""

    def load(**options):
        path = tmp_path / "model.gguf"
        path.write_bytes(tiny_model("qwen2", "Q4_K", **options).read_bytes())
        return path, runner(path)

    return load


def truncate(path):
    os.truncate(path, 0)


def overwrite(path):
    path.write_bytes(bytes(path.stat().st_size))


def remove(path):
    path.unlink()


def replace(path):
    other = path.with_suffix(".new")
    other.write_bytes(b"another file")
    other.rename(path)


@pytest.mark.parametrize("change", [truncate, overwrite, remove, replace])
def test_a_tied_model_does_not_notice(loaded, tokens, change):
    path, run = loaded(tied=True)
    expected = run.logits(tokens)
    change(path)
    np.testing.assert_array_equal(run.logits(tokens), expected)
    np.testing.assert_array_equal(run.logits(tokens[::-1])[0], run.logits(tokens[149:])[0])


@pytest.mark.parametrize("change", [remove, replace])
def test_a_file_that_is_replaced_is_still_there_for_the_model(loaded, tokens, change):
    path, run = loaded(tied=False)
    expected = run.logits(tokens)
    change(path)
    np.testing.assert_array_equal(run.logits(tokens), expected)


@pytest.mark.parametrize("change", [truncate, overwrite])
def test_a_file_that_is_written_to_is_an_error(loaded, tokens, change):
    path, run = loaded(tied=False)
    run.logits(tokens)
    before = path.stat().st_mtime_ns
    change(path)
    if path.stat().st_mtime_ns == before:  # within one tick of the file system's clock
        os.utime(path, ns=(before, before + 1))
    seq = run.engine.new_sequence()
    with pytest.raises(_native.GgufError, match=r"model\.gguf was changed by another program"):
        run.append(seq, tokens)
    assert run.engine.length(seq) == 0
    assert run.engine.free_tokens == 2048
    run.engine.free_sequence(seq)


def test_a_file_that_is_written_to_while_it_loads_is_an_error(tiny_model, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny_model("qwen2", "Q4_K", tied=True).read_bytes())
    file = _native.GgufFile(str(path))
    os.utime(path, ns=(1, 1))
    with pytest.raises(_native.GgufError, match="was changed by another program"):
        _native.Model(file)


def test_a_model_needs_no_mapping(loaded):
    path, run = loaded(tied=False)
    assert str(path) not in Path("/proc/self/maps").read_text(encoding="utf-8")
    assert run.model.n_vocab == 320


@pytest.mark.parametrize("change", [truncate, overwrite])
def test_a_file_that_is_written_to_before_it_loads(tiny_model, tmp_path, change):
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny_model("qwen2", "Q4_K").read_bytes())
    file = _native.GgufFile(str(path))
    keys = file.keys()
    metadata = [file.get(key) for key in keys]
    before = path.stat().st_mtime_ns
    change(path)
    if path.stat().st_mtime_ns == before:  # within one tick of the file system's clock
        os.utime(path, ns=(before, before + 1))
    assert file.keys() == keys
    assert [file.get(key) for key in keys] == metadata
    for read in (lambda: file.tensor("output_norm.weight"), lambda: _native.Model(file)):
        with pytest.raises(_native.GgufError, match=r"model\.gguf was changed by another program"):
            read()
