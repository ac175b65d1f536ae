"""A deterministic model that costs nothing: its logits are a hash of the sequence's own tokens."""

import threading
import zlib
from dataclasses import dataclass, field

import numpy as np
import pytest

from engine.generation.sequence import Drawn
from engine.types import FinishReason

VOCAB = 64
END = 0


def next_token(tokens: list[int]) -> int:
    """What the fake model says after `tokens`; about one time in twelve it ends."""
    value = zlib.crc32(np.asarray(tokens, np.int32).tobytes())
    return END if value % 12 == 0 else 1 + value // 12 % (VOCAB - 1)


def continuation(prompt: list[int], max_tokens: int) -> list[int]:
    """The greedy answer to a prompt, computed without any engine."""
    tokens = list(prompt)
    while len(tokens) - len(prompt) < max_tokens:
        tokens.append(next_token(tokens))
        if tokens[-1] == END:
            break
    return tokens[len(prompt) :]


@dataclass
class FakeSequence:
    tokens: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)


class FakeBackend:
    """Implements `engine.backends.base.Backend` with exact page accounting.

    calls: (sequence, tokens) rows of every forward that ran.
    inside: called in the middle of every forward, on the thread that called it.
    """

    name = "fake"
    kernels = "none"
    threads = 1
    n_vocab = VOCAB

    def __init__(self, *, context_tokens=64, kv_tokens=1024, page=4, inside=lambda: None):
        self.context_tokens = context_tokens
        self.kv_tokens = kv_tokens
        self.page = page
        self.inside = inside
        self.sequences: dict[int, FakeSequence] = {}
        self.references = [0] * (kv_tokens // page)
        self.calls: list[list[tuple[int, list[int]]]] = []
        self.owners: set[int] = set()
        self.running = False
        self.cancelled = False
        self.closed = False
        self._next = 0

    @property
    def free_tokens(self):
        return self.page * self.references.count(0)

    def new_sequence(self):
        self.owners.add(threading.get_ident())
        self._next += 1
        self.sequences[self._next] = FakeSequence()
        return self._next

    def free_sequence(self, seq):
        self.owners.add(threading.get_ident())
        for page in self.sequences.pop(seq).pages:
            self.references[page] -= 1
            assert self.references[page] >= 0

    def fork_sequence(self, seq, length):
        self.owners.add(threading.get_ident())
        source = self.sequences[seq]
        assert 0 < length <= len(source.tokens)
        whole, rest = divmod(length, self.page)
        copied = [self._free_page()] if rest else []
        for page in source.pages[:whole]:
            self.references[page] += 1
        fork = self.new_sequence()
        self.sequences[fork] = FakeSequence(source.tokens[:length], source.pages[:whole] + copied)
        return fork

    def forward(self, seqs, tokens, want_logits):
        self.owners.add(threading.get_ident())
        assert seqs.dtype == tokens.dtype == np.int32
        assert len(seqs) == len(tokens) == len(want_logits) > 0
        self.running = True
        self.inside()
        self.running = False
        if self.cancelled:
            self.cancelled = False
            raise InterruptedError
        added = {
            int(seq): [int(token) for token in tokens[seqs == seq]] for seq in dict.fromkeys(seqs.tolist())
        }
        needed = {
            seq: -(-(len(self.sequences[seq].tokens) + len(new)) // self.page)
            - len(self.sequences[seq].pages)
            for seq, new in added.items()
        }
        if sum(needed.values()) > self.references.count(0):
            raise MemoryError
        self.calls.append(list(added.items()))
        logits = []
        for seq, token, wanted in zip(seqs.tolist(), tokens.tolist(), want_logits.tolist(), strict=True):
            assert 0 <= token < VOCAB
            state = self.sequences[seq]
            if len(state.tokens) == len(state.pages) * self.page:
                state.pages.append(self._free_page())
            state.tokens.append(token)
            if wanted:
                row = np.zeros(VOCAB, np.float32)
                row[next_token(state.tokens)] = 1
                logits.append(row)
        return np.array(logits, np.float32).reshape(len(logits), VOCAB)

    def cancel(self):
        self.cancelled = self.running

    def close(self):
        self.closed = True

    def _free_page(self):
        if 0 not in self.references:
            raise MemoryError
        page = self.references.index(0)
        self.references[page] = 1
        return page


class FakeOutput:
    """Greedy; a token's text is its number and a blank, and every text is held back for one token."""

    def __init__(self):
        self._held = ""

    def draw(self, logits, history):
        token = int(np.argmax(logits))
        if token == END:
            return Drawn(token, self.flush(), -1.0, FinishReason.STOP)
        text, self._held = self._held, f"{token} "
        return Drawn(token, text, -1.0)

    def flush(self):
        text, self._held = self._held, ""
        return text


@dataclass
class Fakes:
    """The helpers above, for tests that cannot import this file."""

    Backend = FakeBackend
    Output = FakeOutput
    END = END
    next_token = staticmethod(next_token)
    continuation = staticmethod(continuation)

    @staticmethod
    def text(tokens):
        return "".join(f"{token} " for token in tokens if token != END)


@pytest.fixture(scope="session")
def fakes():
    return Fakes
