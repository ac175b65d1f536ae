"""The reference of qwen35 against llama.cpp, and against itself."""

import numpy as np
import pytest

from engine.reference.hybrid import Hybrid, causal_conv
from engine.reference.transformer import Transformer

TOKENS = np.random.default_rng(0).integers(0, 256, 150)

MODELS = {
    "two periods": {"layers": 8},
    "one value head a key head": {"layers": 4, "linear_key_heads": 4},
    "three value heads a key head": {"layers": 4, "linear_key_heads": 2, "linear_value_heads": 6},
    "attention in every second layer": {"layers": 4, "full_attention_interval": 2},
    "four delta nets before one attention": {"layers": 5, "full_attention_interval": 5},
    "tied, wider heads": {"layers": 4, "tied": True, "head_dim": 128, "heads": 4, "linear_head_dim": 128},
    "a fast rope": {"layers": 4, "rope_base": 100.0},
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_llama_cpps(tiny_model, llama_cpp_logits, name):
    path = tiny_model("qwen35", **MODELS[name])
    ours = Hybrid.load(path).forward(TOKENS)
    for chunk in (0, 37, 1):
        theirs = llama_cpp_logits(path, TOKENS, chunk=chunk)
        assert np.abs(ours - theirs).max() < 1e-3 * ours.std()


@pytest.mark.oracle
def test_interleaved_sequences_are_llama_cpps(tiny_model, llama_cpp_logits):
    path = tiny_model("qwen35", layers=4)
    sequences = np.repeat([0, 1, 0, 2, 1], 30)
    ours = Hybrid.load(path).forward(TOKENS, sequences=sequences)
    theirs = np.concatenate([llama_cpp_logits(path, TOKENS[sequences == s]) for s in range(3)])
    order = np.concatenate([np.flatnonzero(sequences == s) for s in range(3)])
    assert np.abs(ours[order] - theirs).max() < 1e-3 * ours.std()


def test_a_sequence_sees_only_itself(tiny_model):
    model = Hybrid.load(tiny_model("qwen35", layers=4))
    sequences = np.random.default_rng(1).integers(0, 3, 60)
    together = model.forward(TOKENS[:60], sequences=sequences)
    for s in range(3):
        alone = model.forward(TOKENS[:60][sequences == s])
        np.testing.assert_allclose(together[sequences == s], alone, rtol=0, atol=1e-9)


def test_later_rows_change_nothing(tiny_model):
    model = Hybrid.load(tiny_model("qwen35", layers=4))
    np.testing.assert_allclose(model.forward(TOKENS[:40])[:25], model.forward(TOKENS[:25]), rtol=0, atol=1e-9)


def test_the_convolution_looks_back_only():
    x = np.zeros((6, 1))
    x[2] = 1.0
    assert causal_conv(x, np.array([[4.0, 3.0, 2.0, 1.0]])).ravel().tolist() == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize(("kind", "arch"), [(Hybrid, "qwen3"), (Transformer, "qwen35")])
def test_each_reference_knows_its_architectures(tiny_model, kind, arch):
    with pytest.raises(ValueError, match=f"'{arch}' is not one of"):
        kind.load(tiny_model(arch))
