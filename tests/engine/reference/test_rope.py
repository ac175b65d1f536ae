"""Rotary embedding: what holds for any position and any scaling. Exact values: test_transformer.py."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.reference.rope import Rope, yarn_kept


def rope(architecture="qwen2", head_dim=64, **keys):
    metadata = {"general.architecture": architecture, f"{architecture}.context_length": 4096}
    metadata |= {f"{architecture}.rope.{key.replace('__', '.')}": value for key, value in keys.items()}
    return Rope.from_metadata(metadata, head_dim)


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_position_zero_turns_nothing(architecture):
    x = np.random.default_rng(0).standard_normal((3, 2, 64))
    np.testing.assert_array_equal(rope(architecture).rotate(x, np.zeros(3, np.int64)), x)


def test_pairs_are_neighbours_in_llama_and_halves_in_qwen():
    x = np.zeros((1, 1, 4))
    x[..., 0] = 1
    turned = [math.cos(1), math.sin(1)]
    np.testing.assert_allclose(rope("llama", 4).rotate(x, np.array([1]))[0, 0], [*turned, 0, 0])
    np.testing.assert_allclose(rope("qwen2", 4).rotate(x, np.array([1]))[0, 0], [turned[0], 0, turned[1], 0])


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
@given(position=st.integers(0, 100_000), distance=st.integers(0, 4096))
def test_products_depend_on_distance_alone(architecture, position, distance):
    q, k = np.random.default_rng(0).standard_normal((2, 1, 1, 64))
    r = rope(architecture)
    far = r.rotate(q, np.array([position + distance])) * r.rotate(k, np.array([position]))
    near = r.rotate(q, np.array([distance])) * r.rotate(k, np.array([0]))
    assert far.sum() == pytest.approx(near.sum(), abs=1e-8)


def test_values_past_the_dimension_count_pass():
    x = np.random.default_rng(0).standard_normal((1, 1, 64))
    turned = rope(dimension_count=16).rotate(x, np.array([7]))
    np.testing.assert_array_equal(turned[..., 16:], x[..., 16:])
    assert (turned[..., :16] != x[..., :16]).all()


def test_linear_scaling_divides_positions():
    x = np.random.default_rng(0).standard_normal((1, 1, 64))
    scaled = rope(scaling__factor=4.0).rotate(x, np.array([40]))  # "linear" is the default kind
    np.testing.assert_allclose(scaled, rope().rotate(x, np.array([10])))
    unscaled = rope(scaling__type="none", scaling__factor=4.0).rotate(x, np.array([40]))
    np.testing.assert_allclose(unscaled, rope().rotate(x, np.array([40])))


def test_yarn_keeps_short_waves_and_stretches_long_ones():
    plain = rope(freq_base=1e6)
    yarn = rope(
        freq_base=1e6, scaling__type="yarn", scaling__factor=4.0, scaling__original_context_length=4096
    )
    ratio = plain.frequencies / yarn.frequencies
    assert ratio[0] == 1
    assert ratio[-1] == pytest.approx(4)
    assert (np.diff(ratio) >= -1e-12).all()
    assert yarn.magnitude == pytest.approx(1 + 0.1 * math.log(4))


def test_yarns_bounds_are_the_papers():
    # 32 turns and one turn over the original context bound the ramp (arXiv 2309.00071, section 3.2).
    kept = yarn_kept(128, 10000.0, 4096)
    turns = 4096 * 10000.0 ** (-np.arange(64) / 64) / (2 * math.pi)
    assert (kept[turns > 40] == 1).all()
    assert (kept[turns < 0.8] == 0).all()


def test_unknown_scaling_is_refused():
    with pytest.raises(ValueError, match="rope scaling 'longrope' is not supported"):
        rope(scaling__type="longrope")
