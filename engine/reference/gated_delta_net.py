"""The gated delta rule (Gated DeltaNet, arXiv 2412.06464) for one head, in three forms that must agree.

A state S, (K, V), maps keys to values. A token decays it, corrects what it holds for its key, and reads it:

    S = exp(g) S;  d = b (v - S^T k);  S = S + k d^T;  o = S^T q

`recurrent` is that, token by token. `tree` gives the outputs of a whole tree of tokens from the one state
before it, and of a chunk, which is a tree without branches; `commit` then folds a path of it into the state.
Both follow from the first form by writing S at a token as the decayed base and the rank-one updates of its
ancestors: with G the sum of g along the path to a token, its ancestors' d determine its own,

    d_t + b_t sum_j e^(G_t - G_j) (k_j . k_t) d_j = b_t (v_t - e^(G_t) S^T k_t)   (j: proper ancestors of t),

which is a unit lower-triangular system, since a parent stands before its children (for chunks: the WY form of
arXiv 2406.06484). No exponent is positive, so nothing overflows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tokens:
    """What n tokens bring to one head.

    q, k: (n, K), of unit length but for q's scale; v: (n, V).
    g: (n,), log decay, at most 0. b: (n,), in 0..1.
    """

    q: Array
    k: Array
    v: Array
    g: Array
    b: Array

    def __len__(self) -> int:
        return len(self.g)


@dataclass(frozen=True, slots=True)
class TreeOutputs:
    """Of each token of a tree. o: (n, V), its output. d: (n, V), its correction. decay: (n,), its G."""

    o: Array
    d: Array
    decay: Array


def recurrent(tokens: Tokens, state: Array) -> tuple[Array, Array]:
    """Outputs (n, V) and the state after the last token; `state` is (K, V) and stays as it is."""
    outputs = np.empty((len(tokens), state.shape[1]))
    for t, (q, k, v) in enumerate(zip(tokens.q, tokens.k, tokens.v, strict=True)):
        state = np.exp(tokens.g[t]) * state
        state = state + np.outer(k, tokens.b[t] * (v - state.T @ k))
        outputs[t] = state.T @ q
    return outputs, state


def tree(tokens: Tokens, state: Array, parents: Sequence[int]) -> TreeOutputs:
    """Each token as if its own path from the root were the text that follows `state`.

    parents: each token's parent, which stands before it; -1 for a child of the state itself.
    Raises ValueError for a parent that does not stand before its child.
    """
    above = ancestors(parents)
    decay = tokens.g + above @ tokens.g
    carried = np.where(above, np.exp(np.where(above, decay[:, None] - decay, 0.0)), 0.0)
    system = np.eye(len(tokens)) + tokens.b[:, None] * carried * (tokens.k @ tokens.k.T)
    held = np.exp(decay)[:, None] * (tokens.k @ state)
    d = np.linalg.solve(system, tokens.b[:, None] * (tokens.v - held))
    o = np.exp(decay)[:, None] * (tokens.q @ state)
    o = o + ((carried + np.eye(len(tokens))) * (tokens.q @ tokens.k.T)) @ d
    return TreeOutputs(np.asarray(o), np.asarray(d), np.asarray(decay))


def commit(tokens: Tokens, outputs: TreeOutputs, state: Array, path: Sequence[int]) -> Array:
    """The state after the tokens of `path`, which leads from a child of the state down the tree."""
    if not path:
        return state
    end = outputs.decay[path[-1]]
    kept = np.exp(end - outputs.decay[list(path)])[:, None] * outputs.d[list(path)]
    return np.asarray(np.exp(end) * state + tokens.k[list(path)].T @ kept)


def ancestors(parents: Sequence[int]) -> NDArray[np.bool_]:
    """(n, n): row t marks the proper ancestors of token t."""
    above = np.zeros((len(parents), len(parents)), dtype=bool)
    for t, parent in enumerate(parents):
        if not -1 <= parent < t:
            raise ValueError(f"the parent of token {t} is {parent}, which does not stand before it")
        if parent >= 0:
            above[t] = above[parent]
            above[t, parent] = True
    return above
