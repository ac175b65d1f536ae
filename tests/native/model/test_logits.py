"""The native graph against the numpy reference and against llama.cpp, on tiny random models.

With an exact KV cache and float weights nothing is rounded but float32 sums, so the logits must agree to
1e-3 of their spread; in practice they agree to 1e-4 of it.
"""

import numpy as np
import pytest
from gguf import GGUFReader

from engine.reference.transformer import Transformer

CASES = [
    ("llama", {}),
    ("llama", {"rope_freqs": True, "tied": True}),
    ("llama", {"head_dim": 32, "kv_heads": 8}),
    ("qwen2", {}),
    ("qwen2", {"rope_scaling": "yarn", "head_dim": 128}),
    ("qwen2", {"type": "F16"}),
    ("qwen2", {"type": "BF16"}),
    ("qwen3", {}),
    ("qwen3", {"rope_scaling": "linear", "tied": True}),
]
IDS = [f"{arch}-{'-'.join(map(str, options.values())) or 'plain'}" for arch, options in CASES]


def close(logits: np.ndarray, expected: np.ndarray) -> None:
    assert logits.shape == expected.shape
    assert np.abs(logits - expected).max() < 1e-3 * expected.std()


@pytest.mark.parametrize(("arch", "options"), CASES, ids=IDS)
def test_equals_the_reference(tiny_model, runner, tokens, arch, options):
    path = tiny_model(arch, **options)
    expected = Transformer.load(path).forward(tokens.tolist())
    close(runner(path, kv_format="f32").logits(tokens), expected)


# Beside bfloat16 weights llama.cpp rounds activations to bfloat16 too; there only the reference can tell.
ORACLE_CASES = [(arch, options) for arch, options in CASES if options.get("type") != "BF16"]


@pytest.mark.oracle
@pytest.mark.parametrize(("arch", "options"), ORACLE_CASES)
def test_equals_llama_cpp(tiny_model, runner, llama_cpp_logits, tokens, arch, options):
    path = tiny_model(arch, **options)
    close(runner(path, kv_format="f32").logits(tokens), llama_cpp_logits(path, tokens.tolist()))


def test_half_precision_cache_is_near(tiny_model, runner, tokens):
    path = tiny_model("qwen2")
    exact = runner(path, kv_format="f32").logits(tokens)
    half = runner(path).logits(tokens)
    assert not np.array_equal(half, exact)
    assert np.sqrt(np.mean((half - exact) ** 2)) < 2e-3 * exact.std()


@pytest.mark.parametrize("type", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"])
def test_quantised_weights_are_near_their_exact_product(tiny_model, runner, tokens, type):
    # Only the activations' 8 bits separate the two; a wrong scale, zero point or bit plane costs far more
    # than this (random networks amplify rounding: real models come out at a tenth of it).
    path = tiny_model("qwen2", type)
    expected = Transformer.load(path).forward(tokens.tolist())
    logits = runner(path, kv_format="f32").logits(tokens)
    assert np.sqrt(np.mean((logits - expected) ** 2)) < 0.04 * expected.std()


def test_rows_of_a_file_come_out_as_the_file_says(tiny_model):
    from engine import _native

    path = tiny_model("qwen2", "Q5_K")
    ours = _native.GgufFile(str(path))
    for tensor in GGUFReader(path).tensors:
        assert tuple(ours.tensor(tensor.name).shape) == tuple(int(n) for n in reversed(tensor.shape))
