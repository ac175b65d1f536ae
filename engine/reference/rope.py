"""Rotary position embedding as GGUF models ask for it: pairings, linear and YaRN scaling, factor tensors.

RoPE: arXiv 2104.09864; YaRN: arXiv 2309.00071. Where the papers leave a choice, it is llama.cpp's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Wavelengths of fewer than original_context / 32 positions keep their frequency, those of more than
# original_context are interpolated (YaRN's beta and alpha for the llama family).
_BETA_FAST, _BETA_SLOW = 32.0, 1.0


@dataclass(frozen=True, slots=True)
class Rope:
    """How positions turn queries and keys.

    n_dims: the first n_dims values of a head turn, the others pass.
    interleaved: values 2i and 2i + 1 form a pair (llama), else i and i + n_dims / 2 ("neox": qwen).
    frequencies: radians per position of each pair, (n_dims / 2,).
    magnitude: what cosine and sine are multiplied by (YaRN's attention factor, on queries and keys alike).
    """

    n_dims: int
    interleaved: bool
    frequencies: Array
    magnitude: float

    @classmethod
    def from_metadata(
        cls, metadata: Mapping[str, object], head_dim: int, *, factors: Array | None = None
    ) -> Rope:
        """From a GGUF's metadata; factors is the tensor rope_freqs.weight, which divides frequencies.

        Raises ValueError for a kind of scaling that is not supported.
        """
        architecture = str(metadata["general.architecture"])
        prefix = f"{architecture}.rope."
        n_dims = int(_number(metadata, prefix + "dimension_count", head_dim))
        base = _number(metadata, prefix + "freq_base", 10000.0)
        scaling = str(metadata.get(prefix + "scaling.type", "linear"))
        factor = _number(metadata, prefix + "scaling.factor", 0.0)
        factor = factor or _number(metadata, prefix + "scale_linear", 0.0) or 1.0
        magnitude = _number(metadata, prefix + "scaling.attn_factor", 1.0)

        extrapolated = base ** (-2.0 * np.arange(n_dims // 2) / n_dims)
        if factors is not None:
            extrapolated = extrapolated / factors
        if scaling == "none":
            frequencies = extrapolated
        elif scaling == "linear":
            frequencies = extrapolated / factor
        elif scaling == "yarn":
            trained = _number(metadata, f"{architecture}.context_length", 0.0)
            original = _number(metadata, prefix + "scaling.original_context_length", trained)
            kept = yarn_kept(n_dims, base, original)
            frequencies = extrapolated * kept + extrapolated / factor * (1 - kept)
            magnitude *= 1 + 0.1 * math.log(factor) if factor > 1 else 1.0
        else:
            raise ValueError(f"rope scaling {scaling!r} is not supported")
        return cls(n_dims, architecture == "llama", frequencies, magnitude)

    def rotate(self, x: Array, positions: NDArray[np.int64]) -> Array:
        """Turn x, (n, heads, head_dim), by the position of each of its n rows."""
        angle = positions[:, None, None] * self.frequencies
        cos, sin = np.cos(angle) * self.magnitude, np.sin(angle) * self.magnitude
        half = self.n_dims // 2
        pairs = (
            (slice(0, self.n_dims, 2), slice(1, self.n_dims, 2))
            if self.interleaved
            else (slice(0, half), slice(half, self.n_dims))
        )
        first, second = x[..., pairs[0]], x[..., pairs[1]]
        out = x.copy()
        out[..., pairs[0]] = first * cos - second * sin
        out[..., pairs[1]] = first * sin + second * cos
        return out


def yarn_kept(n_dims: int, base: float, original_context: float) -> Array:
    """How much of each pair's own frequency YaRN keeps: 1 for short waves, 0 for long ones, (n_dims / 2,)."""

    def pair_with_turns(turns: float) -> float:
        """The (fractional) pair that makes this many turns over the original context."""
        return n_dims * math.log(original_context / (turns * 2 * math.pi)) / (2 * math.log(base))

    low = max(0, math.floor(pair_with_turns(_BETA_FAST)))
    high = min(n_dims - 1, math.ceil(pair_with_turns(_BETA_SLOW)))
    ramp = (np.arange(n_dims // 2) - low) / max(0.001, high - low)
    return np.asarray(1 - np.clip(ramp, 0, 1))


def _number(metadata: Mapping[str, object], key: str, default: float) -> float:
    return float(cast(float, metadata.get(key, default)))
