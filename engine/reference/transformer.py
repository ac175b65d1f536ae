"""The dense decoder of llama, qwen2 and qwen3 in float64: what the native graph must compute.

hybrid.py has the hybrid one. Every position is computed at once, without a cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, cast

import gguf
import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.reference import quants
from engine.reference.rope import Rope

Array = NDArray[np.float64]
Positions = NDArray[np.int64]


def read_gguf(path: Path) -> tuple[dict[str, object], dict[str, Array]]:
    """Metadata and dequantised tensors (numpy order: rows first) of a trusted GGUF file."""
    reader = gguf.GGUFReader(path)
    metadata = {key: field.contents() for key, field in reader.fields.items()}
    tensors = {}
    for tensor in reader.tensors:
        data = tensor.data.reshape(-1).view(np.uint8)
        values = quants.dequantize(data, quants.BY_NUMBER[tensor.tensor_type].name)
        tensors[tensor.name] = values.astype(np.float64).reshape([int(n) for n in reversed(tensor.shape)])
    return metadata, tensors


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Sizes of a model; head_dim is the length of one query, key or value vector."""

    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    eps: float

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> Hyperparameters:
        """Raises KeyError for a missing key."""
        architecture = str(metadata["general.architecture"])

        def value(key: str) -> float:
            return cast(float, metadata[f"{architecture}.{key}"])

        n_heads = int(value("attention.head_count"))
        default_head_dim = int(value("embedding_length")) // n_heads
        return cls(
            n_layers=int(value("block_count")),
            n_heads=n_heads,
            n_kv_heads=int(cast(int, metadata.get(f"{architecture}.attention.head_count_kv", n_heads))),
            head_dim=int(cast(int, metadata.get(f"{architecture}.attention.key_length", default_head_dim))),
            eps=value("attention.layer_norm_rms_epsilon"),
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """Which sequence each row belongs to, and where it stands in it, (n,) each."""

    sequences: Positions
    positions: Positions

    @property
    def visible(self) -> NDArray[np.bool_]:
        """(n, n): the rows that each row sees, itself among them."""
        same = self.sequences[:, None] == self.sequences
        return np.asarray(same & (self.positions[:, None] >= self.positions))


class Transformer:
    """A model and its forward pass.

    Optional tensors are used when they are there: biases of the attention's projections, query and key
    norms, rope factors; without output.weight the head shares token_embd.weight.
    Raises ValueError for an architecture that it does not know.
    """

    ARCHITECTURES: ClassVar[tuple[str, ...]] = ("llama", "qwen2", "qwen3")
    FEED_FORWARD_NORM: ClassVar[str] = "ffn_norm.weight"

    def __init__(self, metadata: Mapping[str, object], tensors: Mapping[str, Array]) -> None:
        architecture = metadata["general.architecture"]
        if architecture not in self.ARCHITECTURES:
            raise ValueError(f"architecture {architecture!r} is not one of {', '.join(self.ARCHITECTURES)}")
        self.params = Hyperparameters.from_metadata(metadata)
        self.tensors = tensors
        self.rope = Rope.from_metadata(
            metadata, self.params.head_dim, factors=tensors.get("rope_freqs.weight")
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls(*read_gguf(path))

    def forward(
        self, tokens: ArrayLike, *, sequences: ArrayLike | None = None, positions: ArrayLike | None = None
    ) -> Array:
        """Logits of every row, (n, vocabulary); rows as in `hidden`."""
        head = self.tensors.get("output.weight", self.tensors["token_embd.weight"])
        return self.hidden(tokens, sequences=sequences, positions=positions) @ head.T

    def hidden(
        self, tokens: ArrayLike, *, sequences: ArrayLike | None = None, positions: ArrayLike | None = None
    ) -> Array:
        """What logits are made from: every row after the last layer and the final norm, (n, embedding).

        A row sees the rows of its own sequence at its own or an earlier position. By default all rows are
        one sequence; positions count each sequence's rows from 0.
        """
        ids = np.asarray(tokens, dtype=np.int64)
        seqs = np.zeros_like(ids) if sequences is None else np.asarray(sequences, dtype=np.int64)
        pos = count_positions(seqs) if positions is None else np.asarray(positions, dtype=np.int64)
        rows = Rows(seqs, pos)

        x = self.tensors["token_embd.weight"][ids]
        for layer in range(self.params.n_layers):
            prefix = f"blk.{layer}."
            x = x + self._mix(layer, self._norm(x, prefix + "attn_norm.weight"), rows)
            x = x + self._feed_forward(prefix, self._norm(x, prefix + self.FEED_FORWARD_NORM))
        return self._norm(x, "output_norm.weight")

    def _mix(self, layer: int, x: Array, rows: Rows) -> Array:
        """What a layer takes from other rows."""
        prefix = f"blk.{layer}."
        q = self._linear(x, prefix + "attn_q").reshape(-1, self.params.n_heads, self.params.head_dim)
        return self._linear(self._attention(prefix, x, q, rows), prefix + "attn_output")

    def _attention(self, prefix: str, x: Array, q: Array, rows: Rows) -> Array:
        """Values mixed by attention, (n, heads * head_dim); q: (n, heads, head_dim), as projected."""
        p = self.params
        k = self._linear(x, prefix + "attn_k").reshape(-1, p.n_kv_heads, p.head_dim)
        v = self._linear(x, prefix + "attn_v").reshape(-1, p.n_kv_heads, p.head_dim)
        if prefix + "attn_q_norm.weight" in self.tensors:
            q = self._norm(q, prefix + "attn_q_norm.weight")
            k = self._norm(k, prefix + "attn_k_norm.weight")
        q, k = self.rope.rotate(q, rows.positions), self.rope.rotate(k, rows.positions)

        group = p.n_heads // p.n_kv_heads  # query head h reads key-value head h // group
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(p.head_dim)
        weights = softmax(np.where(rows.visible, scores, -np.inf))
        return np.asarray(np.einsum("hqk,khd->qhd", weights, v).reshape(len(x), -1))

    def _feed_forward(self, prefix: str, x: Array) -> Array:
        gate = self._linear(x, prefix + "ffn_gate")
        return self._linear(silu(gate) * self._linear(x, prefix + "ffn_up"), prefix + "ffn_down")

    def _linear(self, x: Array, name: str) -> Array:
        y = x @ self.tensors[name + ".weight"].T
        bias = self.tensors.get(name + ".bias")
        return y if bias is None else y + bias

    def _norm(self, x: Array, name: str) -> Array:
        return rms_norm(x, self.tensors[name], self.params.eps)


def count_positions(sequences: Positions) -> Positions:
    """Each row's place among the rows of its sequence."""
    earlier = np.tril(sequences[:, None] == sequences, -1)
    return np.asarray(earlier.sum(axis=1), dtype=np.int64)


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """Over the last axis: x / sqrt(mean(x^2) + eps) * weight."""
    return np.asarray(x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + eps) * weight)


def sigmoid(x: Array) -> Array:
    """The logistic function; tanh does not overflow."""
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))


def silu(x: Array) -> Array:
    """x times its logistic function."""
    return x * sigmoid(x)


def softmax(x: Array) -> Array:
    """Over the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))
