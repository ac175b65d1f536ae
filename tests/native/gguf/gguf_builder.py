"""Builds GGUF files, good and hostile: every field is written as it is given."""

import struct
from dataclasses import dataclass, field

SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<B",
    10: "<Q",
    11: "<q",
    12: "<d",
}
U8, U32, F32, BOOL, STRING, ARRAY, U64, I64 = 0, 4, 6, 7, 8, 9, 10, 11


def string(text: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text


def scalar(kind: int, value) -> bytes:
    return struct.pack("<I", kind) + (string(value) if kind == STRING else struct.pack(SCALARS[kind], value))


def array(kind: int, values, length: int | None = None) -> bytes:
    head = struct.pack("<IIQ", ARRAY, kind, len(values) if length is None else length)
    return head + b"".join(scalar(kind, value)[4:] for value in values)


@dataclass
class TensorInfo:
    """One entry of the header; every field is written as it stands."""

    name: bytes = b"t"
    dims: tuple[int, ...] = (8,)
    type: int = 0
    offset: int = 0
    n_dims: int | None = None
    name_length: int | None = None

    def encode(self) -> bytes:
        n_dims = len(self.dims) if self.n_dims is None else self.n_dims
        dims = b"".join(struct.pack("<Q", d) for d in self.dims)
        head = string(self.name, self.name_length) + struct.pack("<I", n_dims) + dims
        return head + struct.pack("<IQ", self.type, self.offset)


@dataclass
class GgufFile:
    """A file to build; the counts default to the truth."""

    metadata: list[tuple[bytes, bytes]] = field(default_factory=list)
    tensors: list[TensorInfo] = field(default_factory=lambda: [TensorInfo()])
    data: bytes = bytes(32)
    magic: bytes = b"GGUF"
    version: int = 3
    n_tensors: int | None = None
    n_entries: int | None = None
    alignment: int = 32

    def encode(self) -> bytes:
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        n_entries = len(self.metadata) if self.n_entries is None else self.n_entries
        head = self.magic + struct.pack("<IQQ", self.version, n_tensors, n_entries)
        head += b"".join(string(key) + value for key, value in self.metadata)
        head += b"".join(tensor.encode() for tensor in self.tensors)
        return head + bytes(-len(head) % self.alignment) + self.data


def rich_file() -> GgufFile:
    """A small good file with every kind of value and of tensor."""
    metadata = [(f"scalar.{kind}".encode(), scalar(kind, 1)) for kind in SCALARS]
    metadata += [(f"array.{kind}".encode(), array(kind, [1, 0, 1])) for kind in SCALARS]
    metadata.append((b"general.architecture", scalar(STRING, b"llama")))
    metadata.append((b"tokenizer.ggml.tokens", array(STRING, [b"a", b"", b"\xff\x00"])))
    metadata.append((b"general.alignment", scalar(U32, 32)))
    tensors = [
        TensorInfo(b"blk.0.attn_q.weight", (256, 2), 12, 0),
        TensorInfo(b"norm.weight", (8,), 0, 288),
        TensorInfo(b"q8", (32, 1, 1, 1), 8, 320),
    ]
    return GgufFile(metadata, tensors, data=bytes(range(256)) + bytes(320 + 64 - 256))
