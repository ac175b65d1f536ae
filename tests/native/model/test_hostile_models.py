"""Models whose container is sound and whose contents lie: an error with words, never a crash."""

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import _native

HYPERPARAMETERS = [
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "rope.dimension_count",
]


def rewritten(source, target, *, keys=None, tensors=None, drop=()):
    """A copy of a GGUF with some metadata replaced and some tensors replaced (numpy order) or dropped."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, (keys or {}).pop("general.architecture", None) or "qwen2")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        value = field.contents()
        if keys and name in keys:
            value, kind, inner = keys[name], gguf.GGUFValueType.get_type(keys[name]), None
            if isinstance(value, int):
                kind = gguf.GGUFValueType.UINT64 if value >= 0 else gguf.GGUFValueType.INT64
        writer.add_key_value(name, value, kind, sub_type=inner)
    for tensor in reader.tensors:
        if tensor.name in drop:
            continue
        data = (tensors or {}).get(tensor.name, tensor.data)
        raw = None if tensor.name in (tensors or {}) else tensor.tensor_type
        writer.add_tensor(tensor.name, np.ascontiguousarray(data), raw_dtype=raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def load(path):
    return _native.Model(_native.GgufFile(str(path)))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("attention.head_count_kv", 0, "head_count_kv is 0"),
        ("attention.head_count_kv", 3, "cannot share 3 KV heads"),
        ("attention.head_count", 0, "head_count is 0"),
        ("block_count", 4000, r"blk\.2\."),
        ("block_count", 2**40, "block_count is 1099511627776"),
        ("embedding_length", 2**31, "embedding_length is 2147483648"),
        ("embedding_length", 128, "token_embd.weight is 256 x"),
        ("feed_forward_length", 1024, "ffn_gate.weight is 256 x 512"),
        ("attention.key_length", 33, "different lengths"),
        ("attention.value_length", 32, "different lengths"),
        ("rope.dimension_count", 7, "must be even"),
        ("rope.dimension_count", 128, "at most the head length"),
        ("context_length", 0, "context_length is 0"),
        ("attention.layer_norm_rms_epsilon", float("nan"), "epsilon is not between 0 and 1"),
        ("rope.freq_base", -1.0, "freq_base must be positive"),
    ],
)
def test_lying_hyperparameters(tiny_model, tmp_path, key, value, message):
    path = rewritten(tiny_model("qwen2"), tmp_path / "lies.gguf", keys={f"qwen2.{key}": value})
    with pytest.raises(_native.GgufError, match=message):
        load(path)


def test_an_unknown_architecture_is_named(tiny_model, tmp_path):
    path = rewritten(tiny_model("qwen2"), tmp_path / "x.gguf", keys={"general.architecture": "mamba2"})
    with pytest.raises(_native.GgufError, match=r"'mamba2' is not one .*\(llama, qwen2, qwen3\)"):
        load(path)


@pytest.mark.parametrize(
    "name", ["token_embd.weight", "output_norm.weight", "blk.1.attn_q.weight", "blk.0.ffn_norm.weight"]
)
def test_a_missing_tensor_is_named(tiny_model, tmp_path, name):
    path = rewritten(tiny_model("qwen2"), tmp_path / "x.gguf", drop=[name])
    with pytest.raises(_native.GgufError, match=name):
        load(path)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("blk.0.attn_q.weight", (255, 256)),
        ("blk.0.attn_k.bias", (1,)),
        ("blk.1.attn_norm.weight", (2, 128)),
        ("output_norm.weight", (512,)),
        ("token_embd.weight", (320,)),
        ("output.weight", (319, 256)),
        ("blk.0.ffn_down.weight", (2, 128, 512)),
    ],
)
def test_a_tensor_of_another_shape_is_named_or_harmless(tiny_model, tmp_path, name, shape):
    path = rewritten(tiny_model("qwen2"), tmp_path / "x.gguf", tensors={name: np.zeros(shape, np.float32)})
    if np.prod(shape[:-1], dtype=int) * shape[-1] == 2 * 128 * 512 and shape[-1] == 512:
        load(path)  # the same matrix, spelled with three dimensions
        return
    with pytest.raises(_native.GgufError, match=name):
        load(path)


def test_weights_that_are_no_numbers_only_spoil_the_logits(tiny_model, tmp_path, runner, tokens):
    bad = np.full((512, 256), np.nan, np.float32)
    bad[1::2] = np.inf
    path = rewritten(tiny_model("qwen2"), tmp_path / "nan.gguf", tensors={"blk.0.ffn_up.weight": bad})
    for isa in _native.isas():
        logits = runner(path, isa=isa).logits(tokens[:70])
        assert logits.shape == (70, 320)
        assert np.isnan(logits).all()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.dictionaries(
        st.sampled_from(HYPERPARAMETERS),
        st.one_of(
            st.integers(0, 600),
            st.sampled_from([2**16, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**64 - 1]),
            st.text(max_size=5),
            st.booleans(),
            st.floats(width=32),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_hyperparameters_load_or_are_refused_in_words(tiny_model, tmp_path, changes):
    keys = {f"qwen2.{key}": value for key, value in changes.items()}
    path = rewritten(tiny_model("qwen2"), tmp_path / "any.gguf", keys=keys)
    try:
        model = load(path)
    except _native.GgufError:
        return
    engine = _native.Engine(model, kv_tokens=64, threads=1)
    seq = engine.new_sequence()
    logits = engine.forward(np.array([seq], np.int32), np.array([1], np.int32), np.ones(1, bool))
    assert logits.shape == (1, 320)
