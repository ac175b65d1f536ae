"""A deterministic model that costs nothing: its logits are a hash of the sequence's own tokens."""

import threading
import zlib
from dataclasses import dataclass, field

import numpy as np
import pytest

from engine.backends.pooling import Pooling
from engine.generation.chunk_keys import CHUNK_PAGES, chunk_keys
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
    """Implements `engine.backends.base.Backend`, `KvPages` and `HiddenStates` with exact page accounting.

    Forks share pages, and a shared page is copied before it is written; a page's bytes are its tokens.
    A hidden state is a token, and its place in the text.

    calls: (sequence, tokens) rows of every forward that ran.
    inside: called in the middle of every forward, on the thread that called it.
    """

    name = "fake"
    kernels = "none"
    threads = 1
    n_vocab = VOCAB
    kv_format = "fake"

    def __init__(self, *, context_tokens=64, kv_tokens=1024, page=4, inside=lambda: None, max_sequences=None):
        self.context_tokens = context_tokens
        self.kv_tokens = kv_tokens
        self.page = self.page_tokens = page
        self.page_bytes = 4 * page
        self.inside = inside
        self.max_sequences = max_sequences
        self.sequences: dict[int, FakeSequence] = {}
        self.references = [0] * (kv_tokens // page)
        self.calls: list[list[tuple[int, list[int]]]] = []
        self.owners: set[int] = set()
        self.running = False
        self.cancelled = False
        self.closed = False
        self.kv_pages = self.hidden_states = self
        self.pooling = Pooling.MEAN
        self._next = 0

    @property
    def free_tokens(self):
        return self.page * self.references.count(0)

    def new_sequence(self):
        self.owners.add(threading.get_ident())
        if len(self.sequences) == self.max_sequences:
            raise MemoryError
        self._next += 1
        self.sequences[self._next] = FakeSequence()
        return self._next

    def free_sequence(self, seq):
        self.owners.add(threading.get_ident())
        for page in self.sequences.pop(seq).pages:
            self._drop_page(page)

    def fork_sequence(self, seq, length):
        self.owners.add(threading.get_ident())
        source = self.sequences[seq]
        assert 0 < length <= len(source.tokens)
        fork = self.new_sequence()
        shared = source.pages[: -(-length // self.page)]
        for page in shared:
            self.references[page] += 1
        self.sequences[fork] = FakeSequence(source.tokens[:length], shared)
        return fork

    def truncate(self, seq, length):
        self.owners.add(threading.get_ident())
        state = self.sequences[seq]
        assert 0 <= length <= len(state.tokens)
        del state.tokens[length:]
        while len(state.pages) > -(-length // self.page):
            self._drop_page(state.pages.pop())

    def read_pages(self, seq, first_page, count):
        self.owners.add(threading.get_ident())
        tokens = self.sequences[seq].tokens[first_page * self.page : (first_page + count) * self.page]
        assert len(tokens) == count * self.page
        return np.array(tokens, np.int32).view(np.uint8).reshape(count, self.page_bytes)

    def append_pages(self, seq, pages):
        self.owners.add(threading.get_ident())
        state = self.sequences[seq]
        assert pages.shape[1:] == (self.page_bytes,)
        assert len(state.tokens) % self.page == 0
        if len(pages) > self.references.count(0):
            raise MemoryError
        state.pages += [self._free_page() for _ in pages]
        state.tokens += pages.reshape(-1).view(np.int32).tolist()

    def forward(self, seqs, tokens, want_logits):
        return self.forward_hidden(seqs, tokens, want_logits, np.zeros(len(seqs), bool))[0]

    def forward_hidden(self, seqs, tokens, want_logits, want_hidden):
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
        needed = sum(self._pages_needed(self.sequences[seq], len(new)) for seq, new in added.items())
        if needed > self.references.count(0):
            raise MemoryError
        self.calls.append(list(added.items()))
        logits, hidden = [], []
        for seq, token, wanted, pooled in zip(
            seqs.tolist(), tokens.tolist(), want_logits.tolist(), want_hidden.tolist(), strict=True
        ):
            assert 0 <= token < VOCAB
            state = self.sequences[seq]
            if len(state.tokens) == len(state.pages) * self.page:
                state.pages.append(self._free_page())
            elif self.references[state.pages[-1]] > 1:
                self._drop_page(state.pages[-1])
                state.pages[-1] = self._free_page()
            state.tokens.append(token)
            if wanted:
                row = np.zeros(VOCAB, np.float32)
                row[next_token(state.tokens)] = 1
                logits.append(row)
            if pooled:
                hidden.append((token, len(state.tokens)))
        return (
            np.array(logits, np.float32).reshape(len(logits), VOCAB),
            np.array(hidden, np.float32).reshape(len(hidden), 2),
        )

    def cancel(self):
        self.cancelled = self.running

    def close(self):
        self.closed = True

    def _pages_needed(self, state, rows):
        more = -(-(len(state.tokens) + rows) // self.page) - len(state.pages)
        shared_end = len(state.tokens) % self.page and self.references[state.pages[-1]] > 1
        return more + bool(shared_end)

    def _drop_page(self, page):
        self.references[page] -= 1
        assert self.references[page] >= 0

    def _free_page(self):
        if 0 not in self.references:
            raise MemoryError
        page = self.references.index(0)
        self.references[page] = 1
        return page


class FakeDisk:
    """Implements `engine.generation.disk_tier.DiskTier` without threads: a dictionary.

    chunks: what is on the disk; one that a test takes away is a read that fails.
    late: so many times each restore has nothing yet before it gives its next chunk.
    """

    def __init__(self, page=4, late=0):
        self.chunk_tokens = CHUNK_PAGES * page
        self.chunks: dict[bytes, np.ndarray] = {}
        self.listed: set[bytes] = set()
        self.late = late
        self.writable = self.has_room = True
        self.lost = 0

    def keys(self, tokens):
        return chunk_keys(b"", tokens, self.chunk_tokens)

    def has(self, key):
        return key in self.listed

    def known(self, keys):
        return next((n for n, key in enumerate(keys) if key not in self.listed), len(keys))

    def save(self, keys, index, copy):
        if not self.has(keys[index]):
            self.chunks[keys[index]] = copy()
            self.listed.add(keys[index])

    def touch(self, keys):
        pass

    def restore(self, keys):
        return FakeRestore(self, list(keys))

    def close(self, seconds):
        self.writable = False


class FakeRestore:
    """Implements `engine.generation.disk_tier.Restore`."""

    def __init__(self, disk, keys):
        self._disk, self._keys, self._late = disk, keys, disk.late
        self.ended = self.cancelled = False

    @property
    def complete(self):
        return not self._keys

    def take(self):
        if self._late or self.ended:
            self._late -= bool(self._late)
            return None
        self._late = self._disk.late
        pages = self._disk.chunks.get(self._keys[0]) if self._keys else None
        if pages is None:
            self.ended = True
            self._disk.listed -= set(self._keys[:1])
            return None
        self._keys.pop(0)
        return pages

    def cancel(self):
        self.cancelled = True


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
    Disk = FakeDisk
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
