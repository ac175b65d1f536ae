"""Prompts and text of one model: its tokenizer, fill-in-the-middle format and chat template together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.errors import RequestError
from engine.generation.prompting import Prompt
from engine.generation.sequence import Drawn
from engine.prompts import (
    ChatTemplate,
    VocabularyTrie,
    build_chat,
    build_infill,
    detect_fim,
    remaining_bytes,
    require_fim,
)
from engine.sampling import Sampler, StopMatcher
from engine.tokenizer import GgufMetadata, StreamDecoder, Tokenizer
from engine.types import ChatRequest, FinishReason, InfillRequest


class TextPrompting:
    """Implements `engine.generation.prompting.Prompting` from a model file's metadata.

    Raises ModelFileError when the file's tokenizer cannot be used.
    """

    def __init__(self, metadata: GgufMetadata) -> None:
        self._tokenizer = Tokenizer.from_gguf(metadata)
        self._fim = detect_fim(self._tokenizer)
        self._trie = VocabularyTrie(self._tokenizer)
        self._template: ChatTemplate | RequestError
        try:
            self._template = ChatTemplate.from_gguf(metadata, self._tokenizer)
        except RequestError as missing:
            self._template = missing  # a matter for whoever asks to chat

    @property
    def supports_infill(self) -> bool:
        return self._fim is not None

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    def infill(self, request: InfillRequest, budget: int) -> Prompt:
        """The prompt for a hole, at most `budget` tokens long. Raises RequestError when unsupported."""
        fim = self._fim or require_fim(self._tokenizer)
        prompt = build_infill(request, self._tokenizer, fim, budget, healing=True)
        output = TextOutput(
            Sampler(request.sampling),
            StopMatcher(request.stop, prompt.stop_ids),
            ForcedStart(prompt.forced_bytes, self._tokenizer, self._trie),
        )
        return Prompt(tuple(prompt.ids), output)

    def chat(self, request: ChatRequest) -> Prompt:
        """The prompt for the next message of a chat. Raises RequestError when unsupported."""
        if isinstance(self._template, RequestError):
            raise self._template
        ids = build_chat(request.messages, template=self._template)
        output = TextOutput(
            Sampler(request.sampling),
            StopMatcher(request.stop, self._tokenizer.eos_ids),
            ForcedStart(b"", self._tokenizer, self._trie),
        )
        return Prompt(tuple(ids), output)


class ForcedStart:
    """Token healing: what the first tokens must spell, and the spelling of tokens without that.

    See engine/prompts/healing.py. The document has these bytes already, so they are not part of the text.
    """

    def __init__(self, forced: bytes, tokenizer: Tokenizer, trie: VocabularyTrie) -> None:
        self._left = forced
        self._tokenizer = tokenizer
        self._trie = trie

    def restrict(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits in which only tokens that spell the bytes left are possible; shape (n_vocab,)."""
        if not self._left:
            return logits
        return np.where(self._trie.mask(self._left, len(logits)), logits, np.float32(-np.inf))

    def token_bytes(self, token: int) -> bytes:
        """The next token's bytes beyond the forced ones; to be asked once for each token, in order."""
        spelled = self._tokenizer.token_bytes(token)
        new = spelled[len(self._left) :]
        self._left = remaining_bytes(self._left, spelled)
        return new


class TextOutput:
    """Implements `engine.generation.sequence.Output`: draw, decode, stop."""

    def __init__(self, sampler: Sampler, stops: StopMatcher, start: ForcedStart) -> None:
        self._sampler = sampler
        self._stops = stops
        self._start = start
        self._decoder = StreamDecoder(start)

    def draw(self, logits: NDArray[np.float32], history: list[int]) -> Drawn:
        """Draw the token that follows `history`, with the text that is certain now.

        Raises HearthError when the logits are not numbers.
        """
        drawn = self._sampler.sample(self._start.restrict(logits), history)
        logprob = drawn.logprob or 0.0
        if self._stops.is_stop(drawn.token):
            return Drawn(drawn.token, self.flush(), logprob, FinishReason.STOP)
        text, stopped = self._stops.feed(self._decoder.feed(drawn.token))
        return Drawn(drawn.token, text, logprob, FinishReason.STOP if stopped else None)

    def flush(self) -> str:
        """The text still held back."""
        text, _ = self._stops.feed(self._decoder.finish())
        return text + self._stops.finish()
