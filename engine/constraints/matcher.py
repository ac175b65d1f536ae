"""Grammars at work: which tokens may come next."""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Collection

import llguidance
import llguidance.numpy
import numpy as np
from numpy.typing import NDArray

from engine.errors import RequestError
from engine.tokenizer import Tokenizer

MAX_KEPT = 16
# The fuel is a fifth of the default: it bounds what a hostile pattern costs, here about half a second.
_LIMITS = llguidance.LLParserLimits(
    initial_lexer_fuel=200_000, max_grammar_size=200_000, verbose_errors=False
)
_NOT_TEXT = b"\xff"  # what marks a token without text, in llguidance


class Matcher:
    """The state of one text under a grammar; not for several threads at once.

    Any number of tokens can be tried and taken back, so that a tree of drafts can be walked.
    """

    def __init__(self, state: llguidance.LLMatcher, n_vocab: int, ends: frozenset[int]) -> None:
        self._state = state
        self._n_vocab = n_vocab
        self._ends = ends
        self._bits = llguidance.numpy.allocate_token_bitmask(1, n_vocab)

    def copy(self) -> Matcher:
        """An independent matcher in the same state; costs microseconds."""
        return Matcher(self._state.deep_copy(), self._n_vocab, self._ends)

    @property
    def is_complete(self) -> bool:
        """Whether the text so far matches as a whole, so that it may end here."""
        return bool(self._state.is_accepting())

    def allows(self, token: int) -> bool:
        """Whether the token may come next; much cheaper than the mask of all."""
        if token in self._ends:
            return self.is_complete
        return token < self._n_vocab and bool(self._state.validate_tokens([token]) == 1)

    def mask(self) -> NDArray[np.int32]:
        """The tokens that may come next, end tokens included where the text may end: bit token % 32 of word
        token // 32. Where the grammar leaves one text only, it may have but the usual one of its spellings.
        Valid until the next call. Raises RequestError when the grammar has become too complex.
        """
        llguidance.numpy.fill_next_token_bitmask(self._state, self._bits)
        self._check()
        row: NDArray[np.int32] = self._bits[0]
        return row

    def restrict(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits, shape (n_vocab,), in which only the tokens that may come next are possible."""
        bits = np.unpackbits(self.mask().view(np.uint8), bitorder="little", count=self._n_vocab)
        restricted = np.full(len(logits), -np.inf, np.float32)  # models may have more rows than tokens
        count = min(len(logits), self._n_vocab)
        np.copyto(restricted[:count], logits[:count], where=bits[:count].view(np.bool_))
        return restricted

    def accept(self, token: int) -> None:
        """Go on by a token. Raises RequestError when the grammar does not allow it."""
        if not self._state.consume_token(token):
            self._check()

    def rollback(self, tokens: int) -> None:
        """Take back the last tokens."""
        if tokens:
            self._state.rollback(tokens)
            self._check()

    def _check(self) -> None:
        if self._state.is_error():
            raise RequestError(
                f"The constraint could not be followed: {_words(self._state.get_error())}.",
                meaning="The generation ended here.",
                action="Make the schema or grammar simpler.",
            )


class GrammarCompiler:
    """Compiles grammars for one tokenizer. Every method is safe from any thread.

    The library's view of the vocabulary is built on first use. For Qwen's 151,936 tokens that takes about a
    second and 50 MB, so it should not be on the engine's own thread.

    tags: spellings that count as text even where the file calls them control tokens.
    """

    def __init__(self, tokenizer: Tokenizer, tags: Collection[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._tags = frozenset(tags)
        self._lock = threading.Lock()
        self._vocabulary: llguidance.LLTokenizer | None = None
        self._kept: OrderedDict[str, llguidance.LLMatcher] = OrderedDict()

    def compile(self, grammar: str, what: str) -> Matcher:
        """A matcher at the begin of a text. grammar: from `engine.constraints.grammar`.

        what: the grammar's name in messages. Raises RequestError, which names the keyword or the limit.
        """
        with self._lock:
            state = self._kept.pop(grammar, None) or self._compile(grammar, what)
            self._kept[grammar] = state
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
            return Matcher(state.deep_copy(), self._tokenizer.vocab_size, self._tokenizer.eos_ids)

    def _compile(self, grammar: str, what: str) -> llguidance.LLMatcher:
        if self._vocabulary is None:
            self._vocabulary = self._build()
        state = llguidance.LLMatcher(self._vocabulary, grammar, log_level=0, limits=_LIMITS)
        # Much of the work is done at the first mask, for all copies: here, off the engine's thread. What that
        # mask finds to be over the limits, the second one tells.
        bits = llguidance.numpy.allocate_token_bitmask(1, self._tokenizer.vocab_size)
        tried = state
        for _ in range(2):
            if tried.is_error():
                raise _refused(what, tried.get_error())
            tried = state.deep_copy()
            llguidance.numpy.fill_next_token_bitmask(tried, bits)
        if tried.is_error():
            raise _refused(what, tried.get_error())
        return state

    def _build(self) -> llguidance.LLTokenizer:
        ends = sorted(self._tokenizer.eos_ids)
        if not ends:
            raise RequestError(
                "This model has no token that ends a text, so its output cannot be constrained."
            )
        return llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(_Vocabulary(self._tokenizer, self._tags)), eos_token=ends
        )


class _Vocabulary:
    """A tokenizer as llguidance wants to see it."""

    def __init__(self, tokenizer: Tokenizer, tags: frozenset[str]) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = min(tokenizer.eos_ids)
        self.bos_token_id = tokenizer.bos
        self.tokens: list[bytes] = []
        self.special_token_ids: list[int] = []
        for token in range(tokenizer.vocab_size):
            spelled = tokenizer.token_bytes(token)
            if not spelled:
                text = tokenizer.token_text(token)
                spelled = text.encode() if text in tags else _NOT_TEXT + text.encode()
            if spelled.startswith(_NOT_TEXT) and len(spelled) > 1:
                self.special_token_ids.append(token)
            self.tokens.append(spelled)

    def __call__(self, text: str | bytes) -> list[int]:
        return self._tokenizer.encode(text if isinstance(text, str) else text.decode(errors="replace"))


def _refused(what: str, error: str) -> RequestError:
    keywords = re.search(r"Unimplemented keys: (\[.*?\])", error)
    if keywords:
        names = ", ".join(json.loads(keywords[1]))
        return RequestError(
            f"The {what} uses {names}, which cannot be enforced.",
            action="Leave that out, and check it in the answer.",
        )
    if "NoExtensionBias" in error:  # llguidance's words for a rule that is nothing but itself
        return RequestError(
            f"The {what} cannot be enforced: a reference in it leads back to itself.",
            action="Give what is referred to a form of its own.",
        )
    return RequestError(
        f"The {what} cannot be enforced: {_words(error)}.", action=f"Correct or simplify the {what}."
    )


def _words(error: str) -> str:
    """The library's message without its excerpt of grammar and state, on one line."""
    lines = [line.strip() for line in error.split("<state>")[0].splitlines()]
    shown = " ".join(line for line in lines if line and not re.match(r"\d+ \||\^+$", line))
    return shown[:300].rstrip(". ")
