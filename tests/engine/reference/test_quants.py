"""Tensor types against gguf-py (dequantise, bit for bit) and against themselves (quantise)."""

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.reference import quants

NAMES = list(quants.TYPES)


def same_bits(a, b):
    """Equal bit for bit, any NaN equal to any other."""
    nan = np.isnan(a)
    return (nan == np.isnan(b)).all() and (a.view(np.uint32)[~nan] == b.view(np.uint32)[~nan]).all()


@pytest.mark.parametrize("name", NAMES)
def test_layout_is_ggmls(name):
    t = quants.TYPES[name]
    number = gguf.GGMLQuantizationType[name]
    assert t.number == number
    assert (t.block_elems, t.block_bytes) == gguf.GGML_QUANT_SIZES[number]
    assert quants.BY_NUMBER[t.number] is t


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 5), blocks=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_dequantize_equals_gguf_py_on_any_bytes(name, seed, rows, blocks):
    row_bytes = blocks * quants.TYPES[name].block_bytes
    data = np.random.default_rng(seed).integers(0, 256, (rows, row_bytes), np.uint8)
    with np.errstate(all="ignore"):
        expected = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[name])
    ours = quants.dequantize(data, name)
    assert ours.shape == (rows, blocks * quants.TYPES[name].block_elems)
    assert same_bits(ours, expected.view(np.float32))


# Half a step of the code, plus what rounding the scales can cost, relative to the largest magnitude.
TOLERANCE = {
    "F32": 0,
    "F16": 2**-11,
    "BF16": 2**-8,
    "Q8_0": 0.005,
    "Q6_K": 0.05,
    "Q5_0": 0.07,
    "Q5_1": 0.04,
    "Q5_K": 0.06,
    "Q4_0": 0.13,
    "Q4_1": 0.07,
    "Q4_K": 0.1,
}


SHAPES = {
    "symmetric": lambda rng, n: rng.standard_normal(n),
    "positive": lambda rng, n: rng.uniform(1, 2, n),
    "negative": lambda rng, n: rng.uniform(-2, -1, n),
    "constant": lambda rng, n: np.full(n, rng.uniform(-1, 1)),
    "one value": lambda rng, n: np.where(np.arange(n) == rng.integers(n), rng.uniform(-1, 1), 0.0),
}


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**32 - 1), shape=st.sampled_from(list(SHAPES)), size=st.floats(0.01, 1e3))
@settings(max_examples=60, deadline=None)
def test_quantize_stays_within_half_a_step(name, seed, shape, size):
    n = quants.TYPES[name].block_elems * 2
    values = (SHAPES[shape](np.random.default_rng(seed), n) * size).astype(np.float32).reshape(2, -1)
    back = quants.dequantize(quants.quantize(values, name), name)
    assert back.shape == values.shape
    for row, row_back in zip(values, back, strict=True):
        assert np.abs(row - row_back).max() <= TOLERANCE[name] * np.abs(row).max()


@pytest.mark.parametrize("name", NAMES)
def test_zeros_stay_zeros(name):
    n = quants.TYPES[name].block_elems
    assert not quants.dequantize(quants.quantize(np.zeros(n, np.float32), name), name).any()


@pytest.mark.parametrize("name", ["BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_quantize_is_as_close_as_gguf_pys(name):
    values = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    ours = quants.dequantize(quants.quantize(values, name), name)
    number = gguf.GGMLQuantizationType[name]
    theirs = gguf.quants.dequantize(gguf.quants.quantize(values, number), number)
    assert np.square(ours - values).mean() <= 1.01 * np.square(theirs.view(np.float32) - values).mean()


def test_bad_lengths_and_values_are_refused():
    with pytest.raises(ValueError, match="multiple of 32 values, not 33"):
        quants.quantize(np.zeros(33, np.float32), "Q8_0")
    with pytest.raises(ValueError, match="no whole number of Q8_0 blocks"):
        quants.dequantize(np.zeros(33, np.uint8), "Q8_0")
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="too large for Q8_0"):
        quants.quantize(np.full(32, 1e30, np.float32), "Q8_0")
