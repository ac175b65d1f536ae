"""The tiny models that other tests stand on are what their options say, and the same every time."""

import gguf
import pytest

from engine.reference import quants


@pytest.fixture
def tiny_models(load_helper, request):
    return load_helper(request.path.with_name("tiny_models.py"))


@pytest.mark.parametrize("options", [{}, {"type": "mixed", "rope_scaling": "yarn", "fim_keys": True}])
def test_equal_options_give_equal_bytes(tiny_models, tmp_path, options):
    for name in ("a", "b"):
        tiny_models.write(tiny_models.TinyModel("qwen2", **options), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    tiny_models.write(tiny_models.TinyModel("qwen2", seed=2, **options), tmp_path / "c")
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


def matrix_types(path):
    return {t.name: t.tensor_type.name for t in gguf.GGUFReader(path).tensors if len(t.shape) == 2}


@pytest.mark.parametrize("name", quants.TYPES)
def test_matrices_have_the_type_asked_for(tiny_model, name):
    assert set(matrix_types(tiny_model("llama", name)).values()) == {name}


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3"])
def test_mixed_has_every_type(tiny_model, arch):
    assert set(matrix_types(tiny_model(arch, "mixed")).values()) == set(quants.TYPES)


def test_rows_that_do_not_fit_fall_back_as_in_real_models(tiny_model):
    types = matrix_types(tiny_model("qwen2", "Q4_K", embd=96, ff=256))
    assert types["blk.0.ffn_up.weight"] == "Q5_0"  # rows of 96
    assert types["blk.0.ffn_down.weight"] == "Q4_K"  # rows of 256


def test_architectures_have_their_tensors(tiny_model):
    names = {
        arch: {t.name for t in gguf.GGUFReader(tiny_model(arch)).tensors}
        for arch in ("llama", "qwen2", "qwen3")
    }
    assert "blk.1.attn_q.bias" in names["qwen2"] - names["llama"] - names["qwen3"]
    assert "blk.1.attn_k_norm.weight" in names["qwen3"] - names["llama"] - names["qwen2"]
    tied = {t.name for t in gguf.GGUFReader(tiny_model("llama", tied=True)).tensors}
    assert names["llama"] - tied == {"output.weight"}
