"""Arguments of the wrong type or far out of range: an exception that says so, and nothing has changed."""

import copy
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from engine import _native

WRONG_ARRAYS = {
    "64 bits": np.zeros(2, np.int64),
    "unsigned": np.zeros(2, np.uint32),
    "floats": np.zeros(2, np.float32),
    "bytes": b"\0" * 8,
    "a list": [0, 0],
    "nothing": None,
    "text": "ab",
    "objects": np.zeros(2, object),
    "a number": np.int32(0),
    "no dimension": np.zeros((), np.int32),
    "two dimensions": np.zeros((2, 1), np.int32),
    "big endian": np.zeros(2, ">i4"),
    "every other": np.zeros(4, np.int32)[::2],
    "backwards": np.zeros(2, np.int32)[::-1],
}


@pytest.fixture
def run(tiny_model, runner):
    return runner(tiny_model("qwen2", "Q4_0"), kv_tokens=256)


@pytest.mark.parametrize("array", WRONG_ARRAYS.values(), ids=WRONG_ARRAYS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_wrong_arrays_are_refused_not_converted(run, place, array):
    seq = run.engine.new_sequence()
    arrays = [np.full(2, seq, np.int32), np.zeros(2, np.int32), np.ones(2, bool)]
    arrays[place] = array
    with pytest.raises(TypeError, match="incompatible function arguments"):
        run.engine.forward(*arrays)
    assert run.engine.length(seq) == 0
    run.engine.free_sequence(seq)


def test_arrays_are_only_read(run):
    seq = run.engine.new_sequence()
    arrays = np.full(2, seq, np.int32), np.zeros(2, np.int32), np.ones(2, bool)
    for array in arrays:
        array.setflags(write=False)
    assert run.engine.forward(*arrays).shape == (2, 320)
    run.engine.free_sequence(seq)


@pytest.mark.parametrize("kv_tokens", [-(2**63), -1, 0, 2**40, 2**63 - 1])
def test_caches_of_impossible_size(run, kv_tokens):
    with pytest.raises(ValueError, match="KV cache"):
        _native.Engine(run.model, kv_tokens=kv_tokens, threads=1)


@pytest.mark.parametrize("threads", [-(2**31), -1, 0, 1025, 2**31 - 1])
def test_impossible_numbers_of_threads(run, threads):
    with pytest.raises(ValueError, match="1 to 1024 threads"):
        _native.Engine(run.model, kv_tokens=64, threads=threads)


@pytest.mark.parametrize("options", [{"kv_tokens": 2**64, "threads": 1}, {"kv_tokens": 64, "threads": 1.5}])
def test_options_of_another_type(run, options):
    with pytest.raises(TypeError):
        _native.Engine(run.model, **options)


@pytest.mark.parametrize("seq", [-(2**31), -1, 1, 2**31 - 1])
def test_sequences_that_never_were(run, seq):
    engine = run.engine
    assert engine.new_sequence() == 0
    calls = [
        lambda: engine.length(seq),
        lambda: engine.free_sequence(seq),
        lambda: engine.truncate(seq, 0),
        lambda: engine.fork_sequence(seq, 0),
        lambda: engine.forward(np.array([seq], np.int32), np.zeros(1, np.int32), np.ones(1, bool)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"no sequence {seq}"):
            call()
    engine.free_sequence(0)


def test_a_freed_sequence_cannot_be_used(run, tokens):
    engine = run.engine
    seq = engine.new_sequence()
    run.append(seq, tokens)
    engine.free_sequence(seq)
    for call in (
        lambda: run.append(seq, tokens),
        lambda: engine.truncate(seq, 1),
        lambda: engine.fork_sequence(seq, 1),
    ):
        with pytest.raises(ValueError, match="no sequence"):
            call()
    assert engine.free_tokens == 256


@pytest.mark.filterwarnings("ignore:nanobind")
def test_objects_that_were_not_made_cannot_be_used(run):
    with pytest.raises(TypeError):
        _native.Engine.__new__(_native.Engine).length(0)
    with pytest.raises(TypeError):
        _native.Engine(_native.Model.__new__(_native.Model), kv_tokens=64, threads=1)
    with pytest.raises(TypeError):
        run.engine.__init__(run.model, kv_tokens=64, threads=1)
    assert run.engine.free_tokens == 256
    with pytest.raises(TypeError):
        copy.copy(run.engine)


@pytest.mark.parametrize("name", [b"caf\xe9", b"\xff\xfe"])
def test_paths_that_are_not_utf8(tiny_model, tmp_path, name):
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(tiny_model("qwen2", "Q4_0").read_bytes())
    file = _native.GgufFile(str(path))
    assert file.path == str(path)
    assert _native.Model(file).n_vocab == 320
    os.truncate(path, 10)
    with pytest.raises(_native.GgufError, match="truncated"):
        _native.GgufFile(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        _native.GgufFile(path)


def test_metadata_that_is_not_utf8_can_be_quoted_in_an_error(tmp_path, builder):
    file = builder.GgufFile(metadata=[(b"general.architecture", builder.scalar(builder.STRING, b"\xff\xfe"))])
    path = tmp_path / "x.gguf"
    path.write_bytes(file.encode())
    with pytest.raises(_native.GgufError, match="is not one that this engine runs"):
        _native.Model(_native.GgufFile(path))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "key",
    [
        "attention.layer_norm_rms_epsilon",
        "rope.freq_base",
        "rope.scaling.factor",
        "rope.scaling.attn_factor",
        "rope.scaling.yarn_ext_factor",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
    ],
)
def test_hyperparameters_that_are_no_numbers(tmp_path, hyperparameters_only, key, value):
    path = hyperparameters_only({key: value})
    with pytest.raises(_native.GgufError, match=key.rsplit(".", maxsplit=1)[-1]):
        _native.Model(_native.GgufFile(path))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("block_count", 0),
        ("context_length", 2**31),
        ("context_length", 2**64 - 1),
        ("rope.scaling.original_context_length", 0),
        ("rope.scaling.original_context_length", 2**64 - 1),
        ("attention.head_count", 3),
        ("attention.head_count_kv", 3),
        ("embedding_length", 2**64 - 1),
        ("feed_forward_length", 33),
    ],
)
def test_hyperparameters_out_of_range(hyperparameters_only, key, value):
    with pytest.raises(
        _native.GgufError, match=rf"is {value};|cannot share|key_length is 21;|multiples of 32"
    ):
        _native.Model(_native.GgufFile(hyperparameters_only({key: value})))


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_rope_factors_that_divide_by_nothing(tiny_model, tmp_path, factor):
    source = tiny_model("llama", "Q4_0", rope_freqs=True)
    content = bytearray(source.read_bytes())
    info = next(t for t in _native.GgufFile(source).tensors if t.name == "rope_freqs.weight")
    content[info.offset : info.offset + 4] = np.float32(factor).tobytes()
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(_native.GgufError, match=r"rope_freqs\.weight holds values that are not positive"):
        _native.Engine(_native.Model(_native.GgufFile(path)), kv_tokens=64, threads=1)


def test_engines_and_models_made_and_used_by_many_threads_at_once(tiny_model, runner, tokens):
    path = tiny_model("qwen2", "Q4_0")
    expected = runner(path).logits(tokens)
    model = runner(path).model

    def work(own_model: bool) -> None:
        for _ in range(5):
            used = _native.Model(_native.GgufFile(path)) if own_model else model
            engine = _native.Engine(used, kv_tokens=256, threads=2)
            seq = engine.new_sequence()
            n = len(tokens)
            logits = engine.forward(np.full(n, seq, np.int32), tokens, np.ones(n, bool))
            np.testing.assert_array_equal(logits, expected)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, [True, False, True, False]))
