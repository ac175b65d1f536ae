"""Names for pieces of KV cache on the disk: equal names mean equal bytes.

A prompt is cut into chunks of a few whole KV pages. A chunk's key is the hash of everything that its keys and
values depend on: the model's content, the format of the pages, the version of the arithmetic, and all tokens
up to the chunk's end, by way of its parent's key. So prompts that begin alike share files, and nothing that a
restart may change (another model of the same shape, another context size, another template) can be taken for
another.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 32

CHUNK_PAGES = 4
"""Pages of a chunk: small enough to be lost or read twice without harm, large enough for few files."""

NUMERICS_VERSION = 1
"""Raise it with any change after which the same model and tokens may give other bits in a page."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What fixes a chunk's bytes, the tokens apart.

    model_sha256: of the whole model file, in hexadecimal.
    """

    model_sha256: str
    kv_format: str
    page_tokens: int
    page_bytes: int

    def root_key(self) -> bytes:
        """The parent of every first chunk."""
        digest = blake2b(digest_size=KEY_BYTES, person=b"hearth-kv-root")
        for text in (self.model_sha256, self.kv_format):
            digest.update(struct.pack("<I", len(text)) + text.encode())
        digest.update(struct.pack("<QQQQ", NUMERICS_VERSION, self.page_tokens, self.page_bytes, CHUNK_PAGES))
        return digest.digest()


def chunk_keys(root: bytes, tokens: NDArray[np.int32], chunk_tokens: int) -> list[bytes]:
    """Keys of the whole chunks of a sequence, the first one first."""
    keys, parent = [], root
    for begin in range(0, len(tokens) - chunk_tokens + 1, chunk_tokens):
        chunk = np.ascontiguousarray(tokens[begin : begin + chunk_tokens], np.dtype("<i4"))
        parent = blake2b(parent + chunk.tobytes(), digest_size=KEY_BYTES, person=b"hearth-kv-chunk").digest()
        keys.append(parent)
    return keys
