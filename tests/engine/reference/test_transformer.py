"""The reference transformer against llama.cpp, and against itself."""

import numpy as np
import pytest

from engine.reference.transformer import Transformer, count_positions

TOKENS = np.random.default_rng(0).integers(0, 256, 150)

MODELS = {
    "llama": ("llama", {}),
    "llama, interleaved pairs of 32 values": ("llama", {"head_dim": 32, "kv_heads": 4}),
    "llama, tied": ("llama", {"tied": True}),
    "llama, all biases": ("llama", {"bias": True, "output_bias": True}),
    "llama, one kv head": ("llama", {"kv_heads": 1}),
    "llama, no grouping": ("llama", {"kv_heads": 4}),
    "llama, rope factors": ("llama", {"rope_freqs": True}),
    "llama, linear": ("llama", {"rope_scaling": "linear"}),
    "llama, yarn and rope factors": ("llama", {"rope_scaling": "yarn", "rope_freqs": True}),
    "qwen2": ("qwen2", {}),
    "qwen2, heads of 128": ("qwen2", {"head_dim": 128, "kv_heads": 1, "rope_base": 1e6}),
    "qwen2, linear": ("qwen2", {"rope_scaling": "linear", "rope_factor": 2.5}),
    "qwen2, yarn": ("qwen2", {"rope_scaling": "yarn", "rope_base": 1e6}),
    "qwen2, yarn that shrinks": ("qwen2", {"rope_scaling": "yarn", "rope_factor": 0.5}),
    "qwen3": ("qwen3", {}),
    "qwen3, tied, heads wider than the model": ("qwen3", {"tied": True, "heads": 4, "head_dim": 128}),
    "qwen3, yarn, attention factor": (
        "qwen3",
        {"rope_scaling": "yarn", "rope_attention_factor": 0.8, "rope_original_context": 128},
    ),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_llama_cpps(tiny_model, llama_cpp_logits, name):
    arch, options = MODELS[name]
    path = tiny_model(arch, **options)
    ours = Transformer.load(path).forward(TOKENS)
    for chunk in (0, 37):
        theirs = llama_cpp_logits(path, TOKENS, chunk=chunk)
        assert np.abs(ours - theirs).max() < 1e-3 * ours.std()


@pytest.mark.oracle
@pytest.mark.parametrize("type", ["F16", "BF16"])
def test_half_precision_weights_are_read_right(tiny_model, llama_cpp_logits, type):
    # llama.cpp may round activations to the weights' type, so the difference is that rounding's, not zero.
    path = tiny_model("qwen2", type)
    ours, theirs = Transformer.load(path).forward(TOKENS), llama_cpp_logits(path, TOKENS)
    tolerance = {"F16": 0.005, "BF16": 0.02}[type]
    assert np.sqrt(np.square(ours - theirs).mean()) < tolerance * ours.std()


@pytest.mark.oracle
@pytest.mark.parametrize("type", ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "mixed"])
def test_quantised_weights_are_read_right(tiny_model, llama_cpp_logits, type):
    # llama.cpp rounds activations to eight bits, which a random network amplifies to 3 to 5 %.
    path = tiny_model("llama", type)
    ours, theirs = Transformer.load(path).forward(TOKENS), llama_cpp_logits(path, TOKENS)
    assert np.sqrt(np.square(ours - theirs).mean()) < 0.08 * ours.std()


@pytest.mark.oracle
def test_interleaved_sequences_are_llama_cpps(tiny_model, llama_cpp_logits):
    path = tiny_model("qwen3")
    sequences = np.random.default_rng(1).integers(0, 3, len(TOKENS))
    ours = Transformer.load(path).forward(TOKENS, sequences=sequences)
    theirs = llama_cpp_logits(path, TOKENS, sequences)
    assert np.abs(ours - theirs).max() < 1e-3 * ours.std()


def test_a_sequence_sees_only_itself(tiny_model):
    model = Transformer.load(tiny_model("qwen2"))
    sequences = np.random.default_rng(1).integers(0, 3, 60)
    together = model.forward(TOKENS[:60], sequences=sequences)
    for s in range(3):
        alone = model.forward(TOKENS[:60][sequences == s])
        np.testing.assert_allclose(together[sequences == s], alone, rtol=0, atol=1e-9)


def test_later_rows_change_nothing(tiny_model):
    model = Transformer.load(tiny_model("llama"))
    np.testing.assert_allclose(model.forward(TOKENS[:40])[:25], model.forward(TOKENS[:25]), rtol=0, atol=1e-9)


def test_only_relative_positions_matter(tiny_model):
    model = Transformer.load(tiny_model("qwen2"))
    shifted = model.forward(TOKENS[:30], positions=np.arange(30) + 1000)
    np.testing.assert_allclose(shifted, model.forward(TOKENS[:30]), rtol=0, atol=1e-8)


def test_positions_count_within_a_sequence():
    assert count_positions(np.array([5, 5, 2, 5, 2])).tolist() == [0, 1, 0, 2, 1]


def test_other_architectures_are_refused(tiny_model):
    model = Transformer.load(tiny_model("llama"))
    with pytest.raises(ValueError, match="'mamba' is not one of"):
        Transformer({"general.architecture": "mamba"}, model.tensors)
