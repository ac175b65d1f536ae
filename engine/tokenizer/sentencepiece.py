"""SentencePiece BPE: characters are merged, the pair with the best-scored result first; characters that the
vocabulary lacks become one token a byte.

As in SentencePiece and llama.cpp (llama-vocab.cpp, llm_tokenizer_spm), any two neighbours merge whose joined
spelling is a token. The `tokenizers` library merges listed pairs by rank instead, so every way to cut a token
in two tokens is listed, tokens by falling score. The result is the same:

    Merges within the characters of a token T depend on nothing outside until one crosses T's border, after
    which T cannot form. So they always happen in one order, and only the last pair of that order ever
    stands alone between T's borders: how T's other pairs rank does not matter.

Tokens of equal score merge from left to right in llama.cpp. Real vocabularies have such ties among runs of
one character; there, longer tokens first gives the same.

There is no cache on disk: Llama's 61,249 pairs take 0.15 CPU seconds to list and load, Gemma's 580,139 take
1.3, and reading Gemma's from a cached tokenizer.json takes 1.2.
"""

from __future__ import annotations

import tokenizers
from tokenizers.models import BPE

from engine.errors import ModelFileError
from engine.tokenizer.markers import END_MARKERS, FIM_MARKERS
from engine.tokenizer.metadata import TokenType, Vocabulary

BLANK = "\u2581"  # how pieces spell U+0020
_BYTES = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)}


class SentencePieceModel:
    """The encoder of one SentencePiece vocabulary. Immutable; safe from any thread.

    U+2581 in text cannot be told from a blank: so these models were trained.
    """

    add_bos = True

    def __init__(self, vocabulary: Vocabulary, ids: dict[str, int]) -> None:
        """Raises ModelFileError for a vocabulary without a token for every byte."""
        if not _BYTES.keys() <= ids.keys():
            raise ModelFileError(
                "The model's SentencePiece vocabulary lacks tokens for single bytes.",
                meaning="Text with characters that it does not know could not be shown to the model.",
                action="Choose another model.",
            )
        self._size = len(vocabulary.texts)
        words, bare = _pieces(vocabulary)
        # A character may occur in pieces without being one: an id of its own lets it merge; where it did not,
        # `encode` spells it in bytes.
        extended = ids | {character: self._size + place for place, character in enumerate(bare)}
        self._bytes_of_bare = [[ids[f"<0x{byte:02X}>"] for byte in character.encode()] for character in bare]
        self._bpe = tokenizers.Tokenizer(BPE(extended, _pairs(words, {*words, *bare}), byte_fallback=True))

    def encode(self, text: str) -> list[int]:
        """Ids of text as it stands, without special tokens or a leading blank.

        Raises TypeError for a lone surrogate.
        """
        ids: list[int] = self._bpe.encode(text.replace(" ", BLANK), add_special_tokens=False).ids
        if not self._bytes_of_bare:
            return ids
        expanded: list[int] = []
        for token in ids:
            expanded += [token] if token < self._size else self._bytes_of_bare[token - self._size]
        return expanded

    def spelled(self, token_text: str) -> bytes:
        """The bytes that a token of text stands for."""
        return _BYTES.get(token_text) or token_text.replace(BLANK, " ").encode()


def _pieces(vocabulary: Vocabulary) -> tuple[list[str], list[str]]:
    """(tokens that text may be merged to, by falling score; characters in them that are no token).

    Never control tokens, nor markers that the file calls text (CodeLlama's are within reach of merges).
    """
    kept = [
        (-score, -len(text), text)
        for text, kind, score in zip(vocabulary.texts, vocabulary.types, vocabulary.scores, strict=True)
        if kind == TokenType.NORMAL and text not in _BYTES
    ]
    words = [text for _, _, text in sorted(kept) if text not in END_MARKERS and text not in FIM_MARKERS]
    return words, sorted(set("".join(words)).difference(words))


def _pairs(words: list[str], halves: set[str]) -> list[tuple[str, str]]:
    """Every way to cut a word in two halves, in the order of words."""
    return [
        (left, right)
        for word in words
        for cut in range(1, len(word))
        if (left := word[:cut]) in halves and (right := word[cut:]) in halves
    ]
