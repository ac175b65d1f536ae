"""How the states of a text's tokens become one vector, as the model's file says."""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol


class Pooling(IntEnum):
    """Values of `{architecture}.pooling_type` (llama.cpp's enum llama_pooling_type) that give a vector."""

    MEAN = 1
    CLS = 2  # the first token's state
    LAST = 3  # the last token's state


class Metadata(Protocol):
    """Key-value pairs of a GGUF file."""

    def get(self, key: str) -> object: ...


def read_pooling(metadata: Metadata) -> Pooling | None:
    """The file's pooling; MEAN where it names none. None where it names another, as rerankers do."""
    value = metadata.get(f"{metadata.get('general.architecture')}.pooling_type")
    if value in (None, 0):
        return Pooling.MEAN
    return next((pooling for pooling in Pooling if pooling == value), None)
