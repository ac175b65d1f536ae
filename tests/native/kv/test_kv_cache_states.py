"""Any order of appends, forks, truncations and failures: pages are counted, contents are never mixed up.

A model of the pages predicts the free ones and every OutOfPages; a second engine that runs each sequence's
tokens from nothing says what the logits must be, bit for bit.
"""

import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engine import _native

PAGE = 64
PAGES = 4
VOCABULARY = 320
POISON = 319  # its embedding is NaN: what it leaves in a page must not reach the page's next user


class Pages:
    """Which pages a sequence holds; a page is shared when several sequences hold the same object."""

    def __init__(self) -> None:
        self.of: dict[int, list[object]] = {}

    def free(self) -> int:
        return PAGES - len({id(page) for pages in self.of.values() for page in pages})

    def _shared(self, page: object) -> bool:
        return sum(any(page is other for other in pages) for pages in self.of.values()) > 1

    def grow(self, lengths: dict[int, int], added: dict[int, int]) -> bool:
        """Gives every sequence of `added` pages to write to, unless there are too few for all of them."""
        before = {seq: list(pages) for seq, pages in self.of.items()}
        for seq, n in added.items():
            pages = self.of[seq]
            if lengths[seq] % PAGE and self._shared(pages[-1]):
                pages[-1] = object()
            while len(pages) * PAGE < lengths[seq] + n:
                pages.append(object())
        if self.free() < 0:
            self.of = before
            return False
        return True

    def cut(self, seq: int, length: int) -> None:
        del self.of[seq][-(-length // PAGE) :]


class KvCacheMachine(RuleBasedStateMachine):
    def __init__(self, engine: _native.Engine, cold_logits: Callable[[list[int]], np.ndarray]) -> None:
        super().__init__()
        self.engine = engine
        self.cold_logits = cold_logits
        self.tokens: dict[int, list[int]] = {}
        self.pages = Pages()

    def lengths(self) -> dict[int, int]:
        return {seq: len(tokens) for seq, tokens in self.tokens.items()}

    def forward(self, added: dict[int, list[int]]) -> np.ndarray:
        seqs = [seq for seq, tokens in added.items() for _ in tokens]
        tokens = [token for tokens in added.values() for token in tokens]
        return self.engine.forward(
            np.array(seqs, np.int32), np.array(tokens, np.int32), np.ones(len(seqs), bool)
        )

    def draw_rows(self, data: st.DataObject, most: int = 90) -> dict[int, list[int]]:
        seqs = data.draw(
            st.lists(st.sampled_from(sorted(self.tokens)), min_size=1, max_size=3, unique=True), "sequences"
        )
        # Lengths around a page's end matter most; the tokens themselves only have to differ.
        added = {}
        for seq in seqs:
            n = data.draw(
                st.one_of(st.integers(1, 3), st.sampled_from([63, 64, 65]), st.integers(1, most)), "n"
            )
            rng = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
            added[seq] = rng.integers(0, 300, n).tolist()
            if data.draw(st.integers(0, 9), "poison") == 9:
                added[seq][-1] = POISON
        return added

    live = precondition(lambda self: self.tokens)

    @precondition(lambda self: len(self.tokens) < 6)
    @rule()
    def create(self) -> None:
        seq = self.engine.new_sequence()
        assert seq not in self.tokens
        self.tokens[seq] = []
        self.pages.of[seq] = []

    @live
    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        added = self.draw_rows(data)
        if not self.pages.grow(self.lengths(), {seq: len(tokens) for seq, tokens in added.items()}):
            with pytest.raises(_native.OutOfPages):
                self.forward(added)
            return
        logits = self.forward(added)
        row = 0
        for seq, tokens in added.items():
            self.tokens[seq] += tokens
            expected = self.cold_logits(self.tokens[seq])[-len(tokens) :]
            np.testing.assert_array_equal(logits[row : row + len(tokens)], expected)
            row += len(tokens)

    @live
    @rule(data=st.data(), fault=st.sampled_from(["token", "sequence", "order"]))
    def append_nonsense(self, data: st.DataObject, fault: str) -> None:
        added = self.draw_rows(data)
        seqs = [seq for seq, tokens in added.items() for _ in tokens]
        tokens = [token for tokens in added.values() for token in tokens]
        if fault == "token":
            tokens[data.draw(st.integers(0, len(tokens) - 1))] = data.draw(
                st.sampled_from([-1, VOCABULARY, 2**31 - 1, -(2**31)])
            )
        elif fault == "sequence":
            seqs[-1] = data.draw(st.sampled_from([-1, 99, 2**31 - 1, -(2**31)]))
        else:
            other = max(self.tokens) + 1 if len(added) == 1 else list(added)[1]
            seqs = [seqs[0], other, seqs[0]]
            tokens = [1, 2, 3]
        with pytest.raises(ValueError, match=r"token|sequence"):
            self.engine.forward(
                np.array(seqs, np.int32), np.array(tokens, np.int32), np.ones(len(seqs), bool)
            )

    @live
    @rule(data=st.data())
    def append_cancelled(self, data: st.DataObject) -> None:
        """Stopped in the middle, or taken back when the cancel came too late: the same in the end."""
        added = self.draw_rows(data)
        lengths = self.lengths()
        if not self.pages.grow(lengths, {seq: len(tokens) for seq, tokens in added.items()}):
            return
        done = threading.Event()

        def keep_cancelling() -> None:
            while not done.wait(0.0001):
                self.engine.cancel()

        thread = threading.Thread(target=keep_cancelling)
        thread.start()
        try:
            self.forward(added)
        except _native.Cancelled:
            pass
        else:
            for seq in added:
                self.engine.truncate(seq, lengths[seq])
        finally:
            done.set()
            thread.join()
        for seq in added:
            self.pages.cut(seq, lengths[seq])

    @live
    @precondition(lambda self: len(self.tokens) < 6)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.tokens)), "sequence")
        length = data.draw(st.integers(0, len(self.tokens[seq])), "length")
        fork = self.engine.fork_sequence(seq, length)
        assert fork not in self.tokens
        self.tokens[fork] = self.tokens[seq][:length]
        self.pages.of[fork] = list(self.pages.of[seq])
        self.pages.cut(fork, length)

    @live
    @precondition(lambda self: len(self.tokens) < 6)
    @rule(data=st.data())
    def copy_pages(self, data: st.DataObject) -> None:
        """Into a new sequence, by way of the caller's memory."""
        seq = data.draw(st.sampled_from(sorted(self.tokens)), "sequence")
        count = data.draw(st.integers(0, len(self.tokens[seq]) // PAGE), "pages")
        copies = self.engine.read_pages(seq, 0, count)
        to = self.engine.new_sequence()
        if count > self.pages.free():
            with pytest.raises(_native.OutOfPages):
                self.engine.append_pages(to, copies)
            self.engine.free_sequence(to)
            return
        self.engine.append_pages(to, copies)
        self.tokens[to] = self.tokens[seq][: count * PAGE]
        self.pages.of[to] = [object() for _ in range(count)]

    @live
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.tokens)), "sequence")
        length = data.draw(st.integers(0, len(self.tokens[seq])), "length")
        self.engine.truncate(seq, length)
        del self.tokens[seq][length:]
        self.pages.cut(seq, length)

    @live
    @rule(data=st.data(), beyond=st.sampled_from([-1, 1, 2**62, -(2**63), 2**63 - 1]))
    def cut_at_nonsense(self, data: st.DataObject, beyond: int) -> None:
        seq = data.draw(st.sampled_from(sorted(self.tokens)), "sequence")
        length = beyond if abs(beyond) > 1 or beyond < 0 else len(self.tokens[seq]) + 1
        with pytest.raises(ValueError, match="cannot truncate"):
            self.engine.truncate(seq, length)
        with pytest.raises(ValueError, match="cannot fork"):
            self.engine.fork_sequence(seq, length)

    @live
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.tokens)), "sequence")
        self.release(seq)
        with pytest.raises(ValueError, match="no sequence"):
            self.engine.length(seq)

    def release(self, seq: int) -> None:
        self.engine.free_sequence(seq)
        del self.tokens[seq], self.pages.of[seq]

    def check_contents(self, seq: int) -> None:
        """Runs the last token again: its logits look at everything that the sequence holds."""
        tokens = self.tokens[seq]
        if not tokens:
            return
        self.engine.truncate(seq, len(tokens) - 1)
        self.pages.cut(seq, len(tokens) - 1)
        lengths = self.lengths() | {seq: len(tokens) - 1}
        fits = self.pages.grow(lengths, {seq: 1})
        if fits:
            np.testing.assert_array_equal(self.forward({seq: tokens[-1:]}), self.cold_logits(tokens)[-1:])
        else:
            del tokens[-1]

    @invariant()
    def pages_and_lengths_are_the_models(self) -> None:
        assert self.engine.free_tokens == self.pages.free() * PAGE
        assert {seq: self.engine.length(seq) for seq in self.tokens} == self.lengths()

    def teardown(self) -> None:
        for seq in sorted(self.tokens):
            self.check_contents(seq)
            self.pages_and_lengths_are_the_models()
            self.release(seq)
        assert self.engine.free_tokens == PAGES * PAGE


@pytest.mark.parametrize(("threads", "kv_format"), [(1, "f32"), (3, "f16")])
def test_any_order_of_calls(poisoned_model, runner, threads, kv_format):
    model = _native.Model(_native.GgufFile(str(poisoned_model)))
    cold = runner(poisoned_model, threads=1, kv_format=kv_format, isa="scalar")

    def machine() -> KvCacheMachine:
        engine = _native.Engine(model, kv_tokens=PAGE * PAGES, threads=threads, kv_format=kv_format)
        return KvCacheMachine(engine, cold.logits)

    run_state_machine_as_test(
        machine, settings=settings(max_examples=25, stateful_step_count=30, deadline=None)
    )


def test_running_out_of_pages_copies_no_shared_page(poisoned_model, runner, tokens):
    run = runner(poisoned_model, kv_tokens=3 * PAGE)
    engine = run.engine
    seq = engine.new_sequence()
    run.append(seq, tokens[:70])
    fork = engine.fork_sequence(seq, 70)
    with pytest.raises(
        _native.OutOfPages, match="2 pages are needed, but 1 of the KV cache's 3 pages are free"
    ):
        run.append(fork, tokens[:60])  # a copy of the shared page and a new one
    assert engine.free_tokens == PAGE
    both = np.array([seq, fork], np.int32)
    logits = engine.forward(both, tokens[70:72], np.ones(2, bool))  # one copy is enough for two writers
    assert engine.free_tokens == 0
    engine.free_sequence(seq)
    engine.free_sequence(fork)
    np.testing.assert_array_equal(logits[0], run.logits(tokens[:71])[-1])
    np.testing.assert_array_equal(logits[1], run.logits([*tokens[:70], tokens[71]])[-1])
