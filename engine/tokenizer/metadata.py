"""The tokenizer's part of a GGUF file, checked and in plain Python types.

Key names and token types: the GGUF specification (ggml, docs/gguf.md, section "Tokenizer").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from engine.errors import ModelFileError

_TELL = "The model file is damaged or was converted by a broken tool; fetch or convert it again."


class GgufMetadata(Protocol):
    """What this package reads of a model file (`engine._native.GgufFile` has both)."""

    def keys(self) -> list[str]: ...

    def get(self, key: str) -> object:
        """int, float, bool, str or a list of these (string arrays: list[bytes]); None when absent."""
        ...


class TokenType(IntEnum):
    """tokenizer.ggml.token_type."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A byte-level BPE vocabulary.

    texts: each token's spelling; NORMAL tokens in the byte-to-character alphabet of GPT-2.
    types: each token's TokenType value, as long as texts.
    merges: pairs of spellings, best first.
    pre: name of the pre-tokenizer.
    bos, eos, eot, eom: ids, or None when the file has none.
    add_bos: whether the model expects bos before every prompt; None when the file does not say.
    """

    texts: list[str]
    types: Sequence[int]
    merges: list[tuple[str, str]]
    pre: str
    bos: int | None
    eos: int | None
    eot: int | None
    eom: int | None
    add_bos: bool | None


def read_vocabulary(metadata: GgufMetadata) -> Vocabulary:
    """Raises ModelFileError when a key is missing, ill-typed or inconsistent, or the kind is unsupported."""
    kind = metadata.get("tokenizer.ggml.model")
    if kind != "gpt2":
        raise ModelFileError(
            f"The model's tokenizer is of the kind {kind!r}; Hearth reads byte-level BPE ('gpt2') only.",
            meaning="Text would be cut into tokens that the model was not trained on.",
            action="Choose a model with a byte-level BPE tokenizer, for example a Qwen or a StarCoder2.",
        )
    texts = _texts(metadata)
    merges = _merges(metadata)
    types = metadata.get("tokenizer.ggml.token_type")
    if types is None:
        types = [int(TokenType.NORMAL)] * len(texts)
    if not isinstance(types, list) or len(types) != len(texts) or set(map(type, types)) != {int}:
        raise ModelFileError("tokenizer.ggml.token_type does not fit tokenizer.ggml.tokens.", action=_TELL)
    pre = metadata.get("tokenizer.ggml.pre")
    add_bos = metadata.get("tokenizer.ggml.add_bos_token")
    return Vocabulary(
        texts=texts,
        types=types,
        merges=merges,
        pre=pre if isinstance(pre, str) else "default",
        bos=_id(metadata, "bos", len(texts)),
        eos=_id(metadata, "eos", len(texts)),
        eot=_id(metadata, "eot", len(texts)),
        eom=_id(metadata, "eom", len(texts)),
        add_bos=add_bos if isinstance(add_bos, bool) else None,
    )


def _texts(metadata: GgufMetadata) -> list[str]:
    raw = _byte_strings(metadata, "tokenizer.ggml.tokens")
    try:
        # One decode of the joined list is five times faster than one a token.
        texts = b"\n".join(raw).decode().split("\n")
        if len(texts) != len(raw):
            texts = [text.decode() for text in raw]
    except UnicodeDecodeError as error:
        raise ModelFileError(f"tokenizer.ggml.tokens is not UTF-8: {error}.", action=_TELL) from error
    return texts


def _merges(metadata: GgufMetadata) -> list[tuple[str, str]]:
    raw = _byte_strings(metadata, "tokenizer.ggml.merges")
    try:
        halves = b" ".join(raw).decode().split(" ")
    except UnicodeDecodeError as error:
        raise ModelFileError(f"tokenizer.ggml.merges is not UTF-8: {error}.", action=_TELL) from error
    if len(halves) != 2 * len(raw) or not all(halves):
        raise ModelFileError("tokenizer.ggml.merges holds an entry that is not a pair.", action=_TELL)
    return list(zip(halves[::2], halves[1::2], strict=True))


def _byte_strings(metadata: GgufMetadata, key: str) -> list[bytes]:
    value = metadata.get(key)
    if not isinstance(value, list) or set(map(type, value)) != {bytes}:
        raise ModelFileError(f"{key} is missing or is not a list of strings.", action=_TELL)
    return value


def _id(metadata: GgufMetadata, name: str, size: int) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    value = metadata.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or not 0 <= value < size:
        raise ModelFileError(f"{key} is {value!r}, but the vocabulary has {size} tokens.", action=_TELL)
    return value
