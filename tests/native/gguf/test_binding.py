"""engine._native.GgufFile against the gguf package and the reference's dequantisation."""

import gguf
import numpy as np
import pytest

from engine import _native
from engine.reference.transformer import read_gguf


@pytest.fixture(scope="module", params=[("llama", "mixed"), ("qwen2", "F32"), ("qwen3", "Q6_K")])
def path(request, tiny_model):
    return tiny_model(*request.param, rope_scaling="yarn", fim_keys=True)


def test_tensors_are_the_references(path):
    file = _native.GgufFile(str(path))
    _, expected = read_gguf(path)
    assert [info.name for info in file.tensors] == list(expected)
    for info in file.tensors:
        values = file.tensor(info.name)
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, expected[info.name])


def test_tensor_infos_are_gguf_pys(path):
    infos = {info.name: info for info in _native.GgufFile(str(path)).tensors}
    for tensor in gguf.GGUFReader(path).tensors:
        info = infos[tensor.name]
        assert info.type == tensor.tensor_type.name
        assert list(info.shape) == tensor.shape.tolist()
        assert (info.offset, info.nbytes) == (tensor.data_offset, tensor.n_bytes)


def plain(value):
    """String arrays come as bytes from ours and as text from gguf-py."""
    return (
        [item.encode() if isinstance(item, str) else item for item in value]
        if isinstance(value, list)
        else value
    )


def test_metadata_is_gguf_pys(path):
    file = _native.GgufFile(str(path))
    fields = {key: field.contents() for key, field in gguf.GGUFReader(path).fields.items()}
    fields = {key: value for key, value in fields.items() if not key.startswith("GGUF.")}
    assert file.keys() == list(fields)
    for key, value in fields.items():
        assert file.get(key) == plain(value), key
    assert file.get("no.such.key") is None


def test_errors_reach_python(path, tmp_path):
    with pytest.raises(KeyError):
        _native.GgufFile(str(path)).tensor("no.such.tensor")
    with pytest.raises(OSError, match=r"missing\.gguf"):
        _native.GgufFile(str(tmp_path / "missing.gguf"))
    short = tmp_path / "short.gguf"
    short.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(_native.GgufError, match="truncated or corrupt"):
        _native.GgufFile(str(short))


def test_arrays_outlive_the_file(path):
    values = _native.GgufFile(str(path)).tensor("output_norm.weight")
    assert np.isfinite(values).all()


@pytest.mark.parametrize("shape", [(64,), (3, 64), (2, 3, 64), (2, 1, 3, 64), (1, 1, 1, 32)])
@pytest.mark.parametrize("type", ["F32", "Q8_0"])
def test_arrays_have_the_tensors_own_shape(tmp_path, shape, type):
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    kind = gguf.GGMLQuantizationType[type]
    stored = gguf.quants.quantize(values, kind)
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_tensor("t", stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = _native.GgufFile(str(tmp_path / "x.gguf"))
    assert file.tensors[0].shape == shape[::-1]
    np.testing.assert_array_equal(file.tensor("t"), gguf.quants.dequantize(stored, kind), strict=True)
