"""The tokenizer's part of a GGUF file, checked and in plain Python types.

Key names and token types: the GGUF specification (ggml, docs/gguf.md, section "Tokenizer").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from math import isfinite
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


class VocabularyKind(StrEnum):
    """tokenizer.ggml.model, as far as Hearth reads it."""

    BYTE_LEVEL = "gpt2"
    SENTENCEPIECE = "llama"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A vocabulary of either kind.

    texts: each token's spelling; NORMAL tokens of a byte-level vocabulary in the byte-to-character alphabet
        of GPT-2, those of a SentencePiece vocabulary with U+2581 for the blank.
    types: each token's TokenType value, as long as texts.
    merges: pairs of spellings, best first; empty for SentencePiece.
    scores: each token's score, as long as texts; empty for byte-level.
    pre: name of the pre-tokenizer; only byte-level vocabularies have one.
    bos, eos, eot, eom: ids, or None when the file has none.
    add_bos: whether the model expects bos before every prompt; None when the file does not say.
    add_eos: whether it expects eos after every text; embedding models may.
    space_prefix: whether the model expects a blank before the first word of a text.
    """

    kind: VocabularyKind
    texts: list[str]
    types: Sequence[int]
    merges: list[tuple[str, str]]
    scores: Sequence[float]
    pre: str
    bos: int | None
    eos: int | None
    eot: int | None
    eom: int | None
    add_bos: bool | None
    add_eos: bool
    space_prefix: bool


def read_vocabulary(metadata: GgufMetadata) -> Vocabulary:
    """Raises ModelFileError when a key is missing, ill-typed or inconsistent, or the kind is unsupported."""
    kind = _kind(metadata)
    sentencepiece = kind is VocabularyKind.SENTENCEPIECE
    texts = _texts(metadata)
    types = metadata.get("tokenizer.ggml.token_type")
    if types is None:
        types = [int(TokenType.NORMAL)] * len(texts)
    if not isinstance(types, list) or len(types) != len(texts) or set(map(type, types)) != {int}:
        raise ModelFileError("tokenizer.ggml.token_type does not fit tokenizer.ggml.tokens.", action=_TELL)
    pre = metadata.get("tokenizer.ggml.pre")
    add_bos = metadata.get("tokenizer.ggml.add_bos_token")
    space_prefix = metadata.get("tokenizer.ggml.add_space_prefix")
    # What a SentencePiece file leaves out is as in Llama 2's vocabulary, the first of the kind.
    bos, eos = (1, 2) if sentencepiece and len(texts) > 2 else (None, None)
    return Vocabulary(
        kind=kind,
        texts=texts,
        types=types,
        merges=[] if sentencepiece else _merges(metadata),
        scores=_scores(metadata, len(texts)) if sentencepiece else [],
        pre=pre if isinstance(pre, str) else "default",
        bos=_id(metadata, "bos", len(texts), bos),
        eos=_id(metadata, "eos", len(texts), eos),
        eot=_id(metadata, "eot", len(texts)),
        eom=_id(metadata, "eom", len(texts)),
        add_bos=add_bos if isinstance(add_bos, bool) else None,
        add_eos=metadata.get("tokenizer.ggml.add_eos_token") is True,
        space_prefix=space_prefix if isinstance(space_prefix, bool) else sentencepiece,
    )


def _kind(metadata: GgufMetadata) -> VocabularyKind:
    name = metadata.get("tokenizer.ggml.model")
    try:
        return VocabularyKind(name)  # type: ignore[arg-type]
    except ValueError:
        raise ModelFileError(
            f"The model's tokenizer is of the kind {name!r}; Hearth reads byte-level BPE ('gpt2') and "
            "SentencePiece BPE ('llama').",
            meaning="Text would be cut into tokens that the model was not trained on.",
            action="Choose a model with one of these, for example a Qwen, a StarCoder2 or a CodeLlama.",
        ) from None


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


def _scores(metadata: GgufMetadata, size: int) -> list[float]:
    value = metadata.get("tokenizer.ggml.scores")
    if not isinstance(value, list) or len(value) != size or set(map(type, value)) != {float}:
        raise ModelFileError("tokenizer.ggml.scores does not fit tokenizer.ggml.tokens.", action=_TELL)
    if not all(map(isfinite, value)):
        raise ModelFileError("tokenizer.ggml.scores holds a number that is not finite.", action=_TELL)
    return value


def _byte_strings(metadata: GgufMetadata, key: str) -> list[bytes]:
    value = metadata.get(key)
    if not isinstance(value, list) or set(map(type, value)) != {bytes}:
        raise ModelFileError(f"{key} is missing or is not a list of strings.", action=_TELL)
    return value


def _id(metadata: GgufMetadata, name: str, size: int, default: int | None = None) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    value = metadata.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or not 0 <= value < size:
        raise ModelFileError(f"{key} is {value!r}, but the vocabulary has {size} tokens.", action=_TELL)
    return value
