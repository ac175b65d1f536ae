"""Text to token ids and back, from the metadata of a GGUF file.

What all vocabularies share: special tokens, end ids, decoding. The two kinds of BPE are in byte_level.py and
sentencepiece.py.
"""

from __future__ import annotations

import gc
import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.tokenizer.byte_level import ByteLevelModel
from engine.tokenizer.markers import (
    ANSWER_ENDS,
    CALL_ENDS,
    CHANNEL_END,
    END_MARKERS,
    FIM_MARKERS,
    SENTENCE_END,
    TOOL_RESPONSE_END,
)
from engine.tokenizer.metadata import (
    GgufMetadata,
    TokenType,
    Vocabulary,
    VocabularyKind,
    read_vocabulary,
)
from engine.tokenizer.sentencepiece import SentencePieceModel

_LONG = 512  # characters
_LONG_TEXTS_KEPT = 32


class Tokenizer:
    """A BPE tokenizer. Immutable after construction; every method is safe from any thread.

    Attributes:
        vocab_size: number of ids.
        bos: id of the begin-of-text token, or None.
        add_bos: whether prompts of this model start with bos; `encode` never adds it.
        add_eos: whether texts whose vector is wanted end with eos; `encode` never adds it.
        eos: id of the end token that the file names, or None.
        eos_ids: all ids that end a generation.
        text_prefix: what the model expects before a text that begins a prompt or follows a control token: the
            blank of SentencePiece vocabularies, else "". `encode` never adds it.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Raises ModelFileError for an unknown pre-tokenizer or a vocabulary that does not hold together."""
        self._texts = vocabulary.texts
        self._ids = dict(zip(self._texts, range(len(self._texts)), strict=True))
        kind = SentencePieceModel if vocabulary.kind is VocabularyKind.SENTENCEPIECE else ByteLevelModel
        self._bpe = kind(vocabulary, self._ids)

        types = np.asarray(vocabulary.types)
        control = {*_where(types, TokenType.CONTROL), *_where(types, TokenType.UNKNOWN)}
        self._control = frozenset(control | self._mistyped_markers(control))
        self._unused = frozenset(_where(types, TokenType.UNUSED)) - self._control
        self._user_defined = frozenset(_where(types, TokenType.USER_DEFINED)) - self._control
        self._user_defined_in_text = self._finder(self._user_defined)
        self._marker_in_text = self._finder(self._user_defined | self._control)

        # An editor's requests repeat most of their text from key to key: the suffix, the settled part of
        # the prefix, other files.
        self._encode_long = lru_cache(maxsize=_LONG_TEXTS_KEPT)(self._encode_plain)

        self.vocab_size = len(self._texts)
        self.bos = vocabulary.bos
        self.eos = vocabulary.eos
        self.add_eos = vocabulary.add_eos
        self.add_bos = vocabulary.bos is not None and (
            self._bpe.add_bos if vocabulary.add_bos is None else vocabulary.add_bos
        )
        self.text_prefix = " " if vocabulary.space_prefix else ""
        self.eos_ids = self._end_ids(vocabulary)

    @classmethod
    def from_gguf(cls, metadata: GgufMetadata) -> Tokenizer:
        """Raises ModelFileError when the file's tokenizer is damaged or of a kind that Hearth lacks."""
        # Nothing is cached on disk: for Qwen2.5's vocabulary all this takes 0.4 s of a Xeon core, the
        # library's reader of its own files 0.55 s.
        # The collector would walk half a million fresh tuples and strings, several times over.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return cls(read_vocabulary(metadata))
        finally:
            if collecting:
                gc.enable()

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of text; bos is not added.

        special: parse the spellings of control tokens too. False for anything a user, a repository or a
            model wrote: such text can then never become a control token. User-defined tokens (tags like
            <tool_call> that are part of the model's text) are found either way, as in llama.cpp.
        Lone surrogates, which no encoding can carry, count as U+FFFD.
        """
        ids: list[int] = []
        for piece in self.partition(text, special=special):
            if isinstance(piece, int):
                ids.append(piece)
            elif len(piece) < _LONG:
                ids += self._encode_plain(piece)
            else:
                ids += self._encode_long(piece)
        return ids

    def partition(self, text: str, *, special: bool) -> list[str | int]:
        """Text cut at the spellings of user-defined (special: and control) tokens, which become ids."""
        finder = self._marker_in_text if special else self._user_defined_in_text
        if finder is None:
            return [text] if text else []
        pieces: list[str | int] = []
        position = 0
        for match in finder.finditer(text):
            if match.start() > position:
                pieces.append(text[position : match.start()])
            pieces.append(self._ids[match.group()])
            position = match.end()
        if position < len(text):
            pieces.append(text[position:])
        return pieces

    def count(self, text: str) -> int:
        """How many tokens text has, special tokens off."""
        return len(self.encode(text))

    def decode(self, ids: list[int]) -> str:
        """The text of ids; control tokens have none, bytes that are not UTF-8 become U+FFFD."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token stands for in text; b"" for control and unused tokens.

        Raises IndexError outside 0..vocab_size - 1.
        """
        if token in self._control or token in self._unused:
            return b""
        if token in self._user_defined:
            return self._texts[token].encode()
        return self._bpe.spelled(self.token_text(token))

    def token_text(self, token: int) -> str:
        """A token's spelling in the vocabulary, markers included: for people and for templates."""
        if token < 0:
            raise IndexError(token)
        return self._texts[token]

    def id_of(self, token_text: str) -> int | None:
        """The id of the token with exactly this spelling in the vocabulary."""
        return self._ids.get(token_text)

    def is_control(self, token: int) -> bool:
        """Whether a token steers the model and stands for no text."""
        return token in self._control

    def is_user_defined(self, token: int) -> bool:
        """Whether a token is a tag of the model's own text, such as <tool_call>."""
        return token in self._user_defined

    @property
    def control_texts(self) -> list[str]:
        """The spellings of all control tokens."""
        return [self._texts[token] for token in sorted(self._control)]

    def _encode_plain(self, text: str) -> list[int]:
        try:
            return self._bpe.encode(text)
        except TypeError:  # what `tokenizers` says of a lone surrogate
            return self._bpe.encode(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))

    def _mistyped_markers(self, control: set[int]) -> set[int]:
        """Markers that the file does not call control, unless merges reach them: those are plain text."""
        found = {self._ids[text] for text in END_MARKERS | FIM_MARKERS if text in self._ids} - control
        return {token for token in found if self._encode_plain(self._texts[token]) != [token]}

    def _end_ids(self, vocabulary: Vocabulary) -> frozenset[int]:
        named = {vocabulary.eos, vocabulary.eot, vocabulary.eom} - {None}
        texts = {text for text in END_MARKERS if self._ids.get(text, -1) in self._control}
        if texts & CALL_ENDS and texts & ANSWER_ENDS:
            texts.discard(CHANNEL_END)
        if TOOL_RESPONSE_END in texts:
            texts.discard(SENTENCE_END)
        return frozenset(
            {token for token in named if token is not None} | {self._ids[text] for text in texts}
        )

    def _finder(self, tokens: frozenset[int]) -> re.Pattern[str] | None:
        # Longest first: where two spellings start at one place, the longer one is meant.
        texts = sorted({self._texts[token] for token in tokens} - {""}, key=lambda text: (-len(text), text))
        return re.compile("|".join(map(re.escape, texts))) if texts else None


def _where(types: NDArray[np.int64], kind: TokenType) -> list[int]:
    found: list[int] = np.flatnonzero(types == kind).tolist()
    return found
