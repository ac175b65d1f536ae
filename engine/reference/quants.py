"""GGUF's tensor types: float32 to bytes and back.

`dequantize` is the specification of native/quant/dequant.cpp: both give the same bits. Formulas and
layouts are those of ggml's block types; every product and sum is rounded to float32 by itself.
`quantize` rounds to nearest without any search for better scales: for tests, not for quality.

A row of n values is n / block_elems blocks, one after the other. Arrays are (..., n) values or
(..., row bytes) uint8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor type: number is ggml's; block is the layout of block_elems values in the file."""

    name: str
    number: int
    block_elems: int
    block: np.dtype[np.void]

    @property
    def block_bytes(self) -> int:
        return self.block.itemsize

    def row_bytes(self, n: int) -> int:
        """Bytes of a row of n values. Raises ValueError when n is no multiple of the block."""
        if n % self.block_elems:
            raise ValueError(f"a row of {self.name} holds a multiple of {self.block_elems} values, not {n}")
        return n // self.block_elems * self.block_bytes


_F16, _U8, _I8 = "<f2", "u1", "i1"
_Q4_K = np.dtype([("d", _F16), ("dmin", _F16), ("scales", _U8, 12), ("qs", _U8, 128)])
_Q5_K = np.dtype([("d", _F16), ("dmin", _F16), ("scales", _U8, 12), ("qh", _U8, 32), ("qs", _U8, 128)])
_Q6_K = np.dtype([("ql", _U8, 128), ("qh", _U8, 64), ("scales", _I8, 16), ("d", _F16)])

TYPES: dict[str, TensorType] = {
    t.name: t
    for t in (
        TensorType("F32", 0, 1, np.dtype([("x", "<f4")])),
        TensorType("F16", 1, 1, np.dtype([("x", _F16)])),
        TensorType("Q4_0", 2, 32, np.dtype([("d", _F16), ("qs", _U8, 16)])),
        TensorType("Q4_1", 3, 32, np.dtype([("d", _F16), ("m", _F16), ("qs", _U8, 16)])),
        TensorType("Q5_0", 6, 32, np.dtype([("d", _F16), ("qh", _U8, 4), ("qs", _U8, 16)])),
        TensorType("Q5_1", 7, 32, np.dtype([("d", _F16), ("m", _F16), ("qh", _U8, 4), ("qs", _U8, 16)])),
        TensorType("Q8_0", 8, 32, np.dtype([("d", _F16), ("qs", _I8, 32)])),
        TensorType("Q4_K", 12, 256, _Q4_K),
        TensorType("Q5_K", 13, 256, _Q5_K),
        TensorType("Q6_K", 14, 256, _Q6_K),
        TensorType("BF16", 30, 1, np.dtype([("x", "<u2")])),
    )
}
BY_NUMBER: dict[int, TensorType] = {t.number: t for t in TYPES.values()}


def dequantize(data: Bytes, type_name: str) -> Floats:
    """Bytes (..., row bytes) to float32 (..., n)."""
    t = TYPES[type_name]
    if data.shape[-1] % t.block_bytes:
        raise ValueError(f"{data.shape[-1]} bytes are no whole number of {type_name} blocks")
    blocks = np.ascontiguousarray(data).reshape(-1).view(t.block)
    # Random bytes may hold infinite scales; their products are NaN by right.
    with np.errstate(invalid="ignore", over="ignore"):
        values = _DEQUANTIZE[type_name](blocks)
    return values.astype(np.float32, copy=False).reshape(*data.shape[:-1], -1)


def quantize(values: Floats, type_name: str) -> Bytes:
    """float32 (..., n) to bytes (..., row bytes).

    Raises ValueError when n is no multiple of the block, or a scale is too large for its half float.
    """
    t = TYPES[type_name]
    row_bytes = t.row_bytes(values.shape[-1])
    rows = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, t.block_elems)
    blocks = _QUANTIZE[type_name](rows)
    for scale in ("d", "m", "dmin"):
        if scale in (t.block.names or ()) and not np.isfinite(blocks[scale]).all():
            raise ValueError(f"a value is too large for {type_name}: its scale exceeds a half float")
    return blocks.view(np.uint8).reshape(*values.shape[:-1], row_bytes)


# --- float types


def _dequantize_float(b: NDArray[np.void]) -> Floats:
    return np.asarray(b["x"].astype(np.float32))


def _dequantize_bf16(b: NDArray[np.void]) -> Floats:
    return np.asarray((b["x"].astype(np.uint32) << 16).view(np.float32))


def _quantize_float(dtype: np.dtype[np.void]) -> Callable[[Floats], NDArray[np.void]]:
    def quantize_rows(x: Floats) -> NDArray[np.void]:
        blocks = np.empty(len(x), dtype)
        blocks["x"] = x[:, 0]
        return blocks

    return quantize_rows


def _quantize_bf16(x: Floats) -> NDArray[np.void]:
    """Round to nearest even; NaN stays a (quiet) NaN."""
    bits = x[:, 0].view(np.uint32)
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    blocks = np.empty(len(x), TYPES["BF16"].block)
    blocks["x"] = np.where(nan, (bits >> 16) | 0x40, rounded)
    return blocks


# --- Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: 32 values, one scale


def _nibbles(qs: Bytes) -> Bytes:
    """(blocks, 16) bytes to (blocks, 32) values: all low nibbles, then all high ones."""
    return np.concatenate([qs & 15, qs >> 4], axis=-1)


def _pack_nibbles(q: Bytes) -> Bytes:
    return np.asarray(q[:, :16] & 15 | q[:, 16:] << 4, np.uint8)


def _fifth_bits(qh: Bytes) -> Bytes:
    """(blocks, 4) bytes to (blocks, 32): bit j of the little-endian number, moved to bit 4."""
    return np.asarray(np.unpackbits(qh, axis=-1, bitorder="little") << 4, np.uint8)


def _pack_fifth_bits(q: Bytes) -> Bytes:
    return np.packbits(q >> 4 & 1, axis=-1, bitorder="little")


def _column(half: NDArray[np.float16]) -> Floats:
    return half.astype(np.float32)[:, None]


def _dequantize_q4_0(b: NDArray[np.void]) -> Floats:
    return _column(b["d"]) * (_nibbles(b["qs"]).astype(np.float32) - 8)


def _dequantize_q4_1(b: NDArray[np.void]) -> Floats:
    return _column(b["d"]) * _nibbles(b["qs"]).astype(np.float32) + _column(b["m"])


def _dequantize_q5_0(b: NDArray[np.void]) -> Floats:
    return _column(b["d"]) * ((_nibbles(b["qs"]) | _fifth_bits(b["qh"])).astype(np.float32) - 16)


def _dequantize_q5_1(b: NDArray[np.void]) -> Floats:
    q = _nibbles(b["qs"]) | _fifth_bits(b["qh"])
    return _column(b["d"]) * q.astype(np.float32) + _column(b["m"])


def _dequantize_q8_0(b: NDArray[np.void]) -> Floats:
    return _column(b["d"]) * b["qs"].astype(np.float32)


def _divide(x: Floats, scale: Floats) -> Floats:
    """x / scale, and 0 where the scale is 0."""
    return np.divide(x, scale, out=np.zeros_like(x), where=scale != 0)


def _round_to(x: Floats, low: int, high: int) -> NDArray[np.int32]:
    return np.clip(np.rint(x), low, high).astype(np.int32)


def _extreme(x: Floats) -> Floats:
    """The value of largest magnitude along the last axis, with its sign."""
    return np.asarray(np.take_along_axis(x, np.abs(x).argmax(-1)[..., None], -1)[..., 0])


def _quantize_symmetric(name: str, half_range: int) -> Callable[[Floats], NDArray[np.void]]:
    """Codes 0 .. 2 half_range - 1 around half_range; the extreme value takes code 0 exactly."""

    def quantize_rows(x: Floats) -> NDArray[np.void]:
        blocks = np.empty(len(x), TYPES[name].block)
        blocks["d"] = _extreme(x) / -half_range
        codes = _round_to(_divide(x, _column(blocks["d"])), -half_range, half_range - 1)
        q = (codes + half_range).astype(np.uint8)
        blocks["qs"] = _pack_nibbles(q)
        if half_range == 16:
            blocks["qh"] = _pack_fifth_bits(q)
        return blocks

    return quantize_rows


def _quantize_affine(name: str, top: int) -> Callable[[Floats], NDArray[np.void]]:
    """Codes 0 .. top from the least to the greatest value."""

    def quantize_rows(x: Floats) -> NDArray[np.void]:
        blocks = np.empty(len(x), TYPES[name].block)
        blocks["d"] = (x.max(-1) - x.min(-1)) / top
        blocks["m"] = x.min(-1)
        q = _round_to(_divide(x - _column(blocks["m"]), _column(blocks["d"])), 0, top).astype(np.uint8)
        blocks["qs"] = _pack_nibbles(q)
        if top == 31:
            blocks["qh"] = _pack_fifth_bits(q)
        return blocks

    return quantize_rows


def _quantize_q8_0(x: Floats) -> NDArray[np.void]:
    blocks = np.empty(len(x), TYPES["Q8_0"].block)
    blocks["d"] = np.abs(x).max(-1) / 127
    blocks["qs"] = _round_to(_divide(x, _column(blocks["d"])), -127, 127)
    return blocks


# --- Q4_K, Q5_K: 256 values in 8 sub-blocks of 32, each with a six-bit scale and minimum


def _unpack_scales(packed: Bytes) -> tuple[Bytes, Bytes]:
    """(blocks, 12) bytes to scales and minima, each (blocks, 8), 0 to 63.

    Bytes 0..3 hold scales 0..3, bytes 4..7 minima 0..3, in their low six bits; bytes 8..11 hold the low
    four bits of scale (low nibble) and minimum (high nibble) 4..7, whose top two bits are those left over.
    """
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6) << 4], axis=-1)
    minima = np.concatenate([second & 63, (third >> 4) | (second >> 6) << 4], axis=-1)
    return scales, minima


def _pack_scales(scales: Bytes, minima: Bytes) -> Bytes:
    first = scales[:, :4] | (scales[:, 4:] >> 4) << 6
    second = minima[:, :4] | (minima[:, 4:] >> 4) << 6
    third = (scales[:, 4:] & 15) | (minima[:, 4:] & 15) << 4
    return np.concatenate([first, second, third], axis=-1)


def _scaled(b: NDArray[np.void]) -> tuple[Floats, Floats]:
    """Each sub-block's scale and minimum, (blocks, 8, 1)."""
    scales, minima = _unpack_scales(b["scales"])
    scale = _column(b["d"]) * scales.astype(np.float32)
    minimum = _column(b["dmin"]) * minima.astype(np.float32)
    return scale[..., None], minimum[..., None]


def _sub_block_nibbles(qs: Bytes) -> Bytes:
    """(blocks, 128) bytes to (blocks, 8, 32): byte 32 p + l is value l of sub-blocks 2 p and 2 p + 1."""
    pairs = qs.reshape(-1, 4, 32)
    return np.stack([pairs & 15, pairs >> 4], axis=2).reshape(-1, 8, 32)


def _dequantize_q4_k(b: NDArray[np.void]) -> Floats:
    scale, minimum = _scaled(b)
    return scale * _sub_block_nibbles(b["qs"]).astype(np.float32) - minimum


def _dequantize_q5_k(b: NDArray[np.void]) -> Floats:
    scale, minimum = _scaled(b)
    # Bit s of byte l belongs to value l of sub-block s.
    fifth = b["qh"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    q = _sub_block_nibbles(b["qs"]) | fifth << 4
    return scale * q.astype(np.float32) - minimum


def _quantize_k(name: str, top: int) -> Callable[[Floats], NDArray[np.void]]:
    """Codes 0 .. top; a sub-block's minimum is at most 0, so that it can be stored without a sign."""

    def quantize_rows(x: Floats) -> NDArray[np.void]:
        sub = x.reshape(-1, 8, 32)
        minimum = np.maximum(-sub.min(-1), 0)
        scale = (sub.max(-1) + minimum).clip(min=0) / top
        blocks = np.empty(len(x), TYPES[name].block)
        blocks["d"] = scale.max(-1) / 63
        blocks["dmin"] = minimum.max(-1) / 63
        blocks["scales"] = _pack_scales(
            _round_to(_divide(scale, _column(blocks["d"])), 0, 63).astype(np.uint8),
            _round_to(_divide(minimum, _column(blocks["dmin"])), 0, 63).astype(np.uint8),
        )
        stored_scale, stored_minimum = _scaled(blocks)
        q = _round_to(_divide(sub + stored_minimum, stored_scale), 0, top).astype(np.uint8)
        pairs = q.reshape(-1, 4, 2, 32)
        blocks["qs"] = (pairs[:, :, 0] & 15 | pairs[:, :, 1] << 4).reshape(-1, 128)
        if top == 31:
            blocks["qh"] = np.packbits(q >> 4, axis=1, bitorder="little").reshape(-1, 32)
        return blocks

    return quantize_rows


# --- Q6_K: 256 values in 16 sub-blocks of 16, each with a signed eight-bit scale


def _dequantize_q6_k(b: NDArray[np.void]) -> Floats:
    ql = b["ql"].reshape(-1, 2, 64)
    low = np.concatenate([ql & 15, ql >> 4], axis=-1)  # (blocks, half, 128)
    qh = b["qh"].reshape(-1, 2, 32)
    high = np.concatenate([qh >> shift & 3 for shift in (0, 2, 4, 6)], axis=-1)
    q = (low | high << 4).reshape(-1, 16, 16).astype(np.float32) - 32
    scale = _column(b["d"]) * b["scales"].astype(np.float32)
    return np.asarray(scale[..., None] * q, np.float32)


def _quantize_q6_k(x: Floats) -> NDArray[np.void]:
    sub = x.reshape(-1, 16, 16)
    scale = _extreme(sub) / np.float32(-32)
    blocks = np.empty(len(x), TYPES["Q6_K"].block)
    blocks["d"] = np.abs(scale).max(-1) / 127
    blocks["scales"] = _round_to(_divide(scale, _column(blocks["d"])), -127, 127)
    stored = (_column(blocks["d"]) * blocks["scales"].astype(np.float32))[..., None]
    q = (_round_to(_divide(sub, stored), -32, 31) + 32).astype(np.uint8).reshape(-1, 2, 128)
    blocks["ql"] = (q[..., :64] & 15 | q[..., 64:] << 4).reshape(-1, 128)
    high = (q >> 4).reshape(-1, 2, 4, 32)
    packed = high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6
    blocks["qh"] = packed.reshape(-1, 64)
    return blocks


_DEQUANTIZE: dict[str, Callable[[NDArray[np.void]], Floats]] = {
    "F32": _dequantize_float,
    "F16": _dequantize_float,
    "BF16": _dequantize_bf16,
    "Q4_0": _dequantize_q4_0,
    "Q4_1": _dequantize_q4_1,
    "Q5_0": _dequantize_q5_0,
    "Q5_1": _dequantize_q5_1,
    "Q8_0": _dequantize_q8_0,
    "Q4_K": _dequantize_q4_k,
    "Q5_K": _dequantize_q5_k,
    "Q6_K": _dequantize_q6_k,
}
_QUANTIZE: dict[str, Callable[[Floats], NDArray[np.void]]] = {
    "F32": _quantize_float(TYPES["F32"].block),
    "F16": _quantize_float(TYPES["F16"].block),
    "BF16": _quantize_bf16,
    "Q4_0": _quantize_symmetric("Q4_0", 8),
    "Q4_1": _quantize_affine("Q4_1", 15),
    "Q5_0": _quantize_symmetric("Q5_0", 16),
    "Q5_1": _quantize_affine("Q5_1", 31),
    "Q8_0": _quantize_q8_0,
    "Q4_K": _quantize_k("Q4_K", 15),
    "Q5_K": _quantize_k("Q5_K", 31),
    "Q6_K": _quantize_q6_k,
}
