"""Rows of hidden states become one vector, whatever the cuts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backends.pooling import Pooling, read_pooling
from engine.errors import RequestError
from engine.generation.pooling import PooledText

ROWS = np.random.default_rng(3).standard_normal((40, 16)).astype(np.float32)


def pool(pooling, parts):
    text = PooledText(pooling)
    text.begin()
    for part in parts:
        text.add(part)
    return text.vector()


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        (Pooling.MEAN, ROWS.astype(np.float64).mean(axis=0)),
        (Pooling.CLS, ROWS[0].astype(np.float64)),
        (Pooling.LAST, ROWS[-1].astype(np.float64)),
    ],
)
@given(cuts=st.lists(st.integers(1, 39), max_size=6, unique=True).map(sorted))
def test_the_bits_do_not_depend_on_the_cuts(pooling, expected, cuts):
    vector = pool(pooling, np.split(ROWS, cuts))
    assert vector.dtype == np.float32
    np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), rtol=1e-6, atol=1e-7)
    assert np.array_equal(vector, pool(pooling, [ROWS]))


def test_beginning_again_forgets():
    text = PooledText(Pooling.MEAN)
    text.add(ROWS)
    text.begin()
    text.add(ROWS[:1])
    assert np.array_equal(text.vector(), pool(Pooling.MEAN, [ROWS[:1]]))


@pytest.mark.parametrize("row", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_what_has_no_direction_is_refused(row):
    with pytest.raises(RequestError, match="no numbers"):
        pool(Pooling.MEAN, [np.array([row], np.float32)])


@pytest.mark.parametrize(
    ("value", "pooling"),
    [
        (None, Pooling.MEAN),
        (0, Pooling.MEAN),
        (1, Pooling.MEAN),
        (2, Pooling.CLS),
        (3, Pooling.LAST),
        (4, None),
        (-1, None),
        ("mean", None),
        ([1], None),
    ],
)
def test_the_file_says_which(value, pooling):
    assert read_pooling({"general.architecture": "qwen3", "qwen3.pooling_type": value}) is pooling
