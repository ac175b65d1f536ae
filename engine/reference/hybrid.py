"""The hybrid decoder of qwen35 (Qwen3.5 and 3.6) in float64: gated attention, and gated delta nets between.

Every `full_attention_interval`-th layer attends over the whole sequence, and a gate beside each query scales
what it found. The others keep a state of fixed size for each value head (gated_delta_net.py), fed by a short
causal convolution over queries, keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from engine.reference.gated_delta_net import Tokens, recurrent
from engine.reference.transformer import Array, Rows, Transformer, sigmoid, silu


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """Sizes of a gated delta net. interval: every so many layers one attends instead."""

    interval: int
    taps: int
    head_dim: int
    n_key_heads: int
    n_value_heads: int

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> DeltaNet:
        """Raises KeyError for a missing key."""
        prefix = f"{metadata['general.architecture']}."

        def value(key: str) -> int:
            return cast(int, metadata[prefix + key])

        return cls(
            interval=cast(int, metadata.get(prefix + "full_attention_interval", 4)),
            taps=value("ssm.conv_kernel"),
            head_dim=value("ssm.state_size"),
            n_key_heads=value("ssm.group_count"),
            n_value_heads=value("ssm.time_step_rank"),
        )


class Hybrid(Transformer):
    """A qwen35 model and its forward pass, whose rows of a sequence stand in the sequence's order."""

    ARCHITECTURES = ("qwen35",)
    FEED_FORWARD_NORM = "post_attention_norm.weight"

    def __init__(self, metadata: Mapping[str, object], tensors: Mapping[str, Array]) -> None:
        super().__init__(metadata, tensors)
        self.delta_net = DeltaNet.from_metadata(metadata)

    def _mix(self, layer: int, x: Array, rows: Rows) -> Array:
        prefix = f"blk.{layer}."
        if (layer + 1) % self.delta_net.interval == 0:
            return self._gated_attention(prefix, x, rows)
        mixed = np.empty_like(x)
        for sequence in np.unique(rows.sequences):
            own = rows.sequences == sequence
            mixed[own] = self._delta_net(prefix, x[own])
        return mixed

    def _gated_attention(self, prefix: str, x: Array, rows: Rows) -> Array:
        # Each head's rows of attn_q are its queries, then its gates.
        heads = self._linear(x, prefix + "attn_q").reshape(len(x), self.params.n_heads, 2, -1)
        found = self._attention(prefix, x, heads[:, :, 0], rows)
        return self._linear(found * sigmoid(heads[:, :, 1].reshape(len(x), -1)), prefix + "attn_output")

    def _delta_net(self, prefix: str, x: Array) -> Array:
        """One sequence from its start."""
        net = self.delta_net
        key_width = net.n_key_heads * net.head_dim
        qkv = silu(
            causal_conv(self._linear(x, prefix + "attn_qkv"), self.tensors[prefix + "ssm_conv1d.weight"])
        )
        q, k, v = (
            part.reshape(len(x), -1, net.head_dim)
            for part in np.split(qkv, [key_width, 2 * key_width], axis=1)
        )
        q, k = unit(q, self.params.eps) / np.sqrt(net.head_dim), unit(k, self.params.eps)
        b = sigmoid(self._linear(x, prefix + "ssm_beta"))
        step = self._linear(x, prefix + "ssm_alpha") + self.tensors[prefix + "ssm_dt.bias"]
        g = np.logaddexp(0, step) * self.tensors[prefix + "ssm_a"]  # softplus; ssm_a is negative

        o = np.empty_like(v)
        for head in range(net.n_value_heads):
            key_head = head % net.n_key_heads  # value heads stand in tiled order in GGUF files
            tokens = Tokens(q[:, key_head], k[:, key_head], v[:, head], g[:, head], b[:, head])
            o[:, head], _ = recurrent(tokens, np.zeros((net.head_dim, net.head_dim)))
        z = self._linear(x, prefix + "attn_gate").reshape(o.shape)
        o = self._norm(o, prefix + "ssm_norm.weight") * silu(z)
        return self._linear(o.reshape(len(x), -1), prefix + "ssm_out")


def causal_conv(x: Array, taps: Array) -> Array:
    """Each channel of x, (n, channels), by its own taps, (channels, taps); the last is for the row itself."""
    n_taps = taps.shape[1]
    padded = np.concatenate([np.zeros((n_taps - 1, x.shape[1])), x])
    return np.asarray(sum(padded[i : i + len(x)] * taps[:, i] for i in range(n_taps)))


def unit(x: Array, eps: float) -> Array:
    """Over the last axis: x / sqrt(sum(x^2) + eps), as llama.cpp does."""
    return np.asarray(x / np.sqrt(np.square(x).sum(axis=-1, keepdims=True) + eps))
