"""The forms of the gated delta rule against each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.reference.gated_delta_net import Tokens, ancestors, commit, recurrent, tree

KEYS, VALUES = 8, 6


def tokens_of(rng, n, *, decay=1.0):
    k = rng.standard_normal((n, KEYS))
    return Tokens(
        q=rng.standard_normal((n, KEYS)),
        k=k / np.linalg.norm(k, axis=1, keepdims=True),
        v=rng.standard_normal((n, VALUES)),
        g=-decay * rng.random(n),
        b=rng.random(n),
    )


def chosen(tokens, rows):
    return Tokens(*(getattr(tokens, name)[list(rows)] for name in ("q", "k", "v", "g", "b")))


def path_to(parents, token):
    path = []
    while token >= 0:
        path.insert(0, token)
        token = parents[token]
    return path


trees = st.lists(st.integers(0, 1 << 16), min_size=1, max_size=24).map(
    lambda draws: [draw % (t + 1) - 1 for t, draw in enumerate(draws)]
)


@settings(deadline=None)
@given(parents=trees, seed=st.integers(0, 1000), decay=st.sampled_from([0.0, 1.0, 50.0]))
def test_every_node_of_a_tree_is_as_if_its_path_came_alone(parents, seed, decay):
    rng = np.random.default_rng(seed)
    tokens, state = tokens_of(rng, len(parents), decay=decay), rng.standard_normal((KEYS, VALUES))
    outputs = tree(tokens, state, parents)
    for t in range(len(parents)):
        path = path_to(parents, t)
        alone, after = recurrent(chosen(tokens, path), state)
        np.testing.assert_allclose(outputs.o[t], alone[-1], rtol=0, atol=1e-9)
        np.testing.assert_allclose(commit(tokens, outputs, state, path), after, rtol=0, atol=1e-9)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (40,), (7, 33), (39, 1)])
def test_chunks_of_any_size_are_the_recurrence(sizes):
    rng = np.random.default_rng(1)
    tokens, state = tokens_of(rng, sum(sizes)), rng.standard_normal((KEYS, VALUES))
    expected, after = recurrent(tokens, state)
    outputs, done = [], 0
    for size in sizes:
        chunk = chosen(tokens, range(done, done + size))
        part = tree(chunk, state, range(-1, size - 1))
        outputs.append(part.o)
        state = commit(chunk, part, state, range(size))
        done += size
    np.testing.assert_allclose(np.concatenate(outputs), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(state, after, rtol=0, atol=1e-9)


def test_no_exponent_overflows():
    rng = np.random.default_rng(2)
    tokens = tokens_of(rng, 30, decay=1e4)
    outputs = tree(tokens, rng.standard_normal((KEYS, VALUES)), range(-1, 29))
    assert np.isfinite(outputs.o).all()
    assert np.isfinite(outputs.d).all()


def test_the_state_that_was_given_stays():
    rng = np.random.default_rng(3)
    tokens, state = tokens_of(rng, 5), rng.standard_normal((KEYS, VALUES))
    before = state.copy()
    recurrent(tokens, state)
    outputs = tree(tokens, state, [-1, 0, 0, 1, 1])
    assert commit(tokens, outputs, state, []) is state
    assert (state == before).all()


@pytest.mark.parametrize("parents", [[0], [-1, 1], [-1, -2], [-1, 5]])
def test_a_parent_must_stand_before_its_child(parents):
    with pytest.raises(ValueError, match="does not stand before"):
        ancestors(parents)
