"""Any mixture of arrivals, cancellations, interrupts and memory pressure keeps the runner's promises."""

import itertools

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from engine.errors import DeadlineExceeded, EngineBusy, HearthError
from engine.generation.pooling import PooledText, normalised
from engine.generation.runner import Runner
from engine.generation.sequence import Sequence
from engine.generation.speed import Speed
from engine.types import FinishReason, Priority

CONTEXT = 96

# Few different tokens, so that prefixes are often shared; runs longer than a prefill chunk.
prompts = st.one_of(
    st.lists(st.integers(1, 3), min_size=1, max_size=8),
    st.builds(lambda n, tail: [1] * n + tail, st.integers(1, 80), st.lists(st.integers(1, 3), max_size=4)),
)


def is_last(event):
    return isinstance(event, HearthError) or event.finish is not None


class RunnerMachine(RuleBasedStateMachine):
    fakes = None
    requests = Bundle("requests")

    @initialize(
        kv_tokens=st.sampled_from([CONTEXT, 2 * CONTEXT, 4 * CONTEXT, 64 * CONTEXT]),
        tick=st.sampled_from([0.001, 0.1, 1.0]),
        late=st.sampled_from([None, 0, 2]),
    )
    def start(self, kv_tokens, tick, late):
        self.backend = self.fakes.Backend(context_tokens=CONTEXT, kv_tokens=kv_tokens)
        clock = itertools.count(1, tick)
        self.disk = None if late is None else self.fakes.Disk(late=late)
        self.runner = Runner(self.backend, Speed(), clock=lambda: next(clock), disk=self.disk)
        self.events = {}

    @rule(
        target=requests,
        prompt=prompts,
        max_tokens=st.integers(0, 8),
        priority=st.sampled_from(Priority),
        session=st.sampled_from(["", "a", "b"]),
        deadline=st.sampled_from([None] * 6 + [5.0, 50.0]),
    )
    def submit(self, prompt, max_tokens, priority, session, deadline):
        events = []
        output = self.fakes.Output() if max_tokens else None
        sequence = Sequence(tuple(prompt), max_tokens, priority, session, events.append, output, deadline)
        self.events[sequence] = events
        self.runner.submit(sequence)
        return sequence

    @rule(target=requests, prompt=prompts, priority=st.sampled_from(Priority))
    def submit_text(self, prompt, priority):
        """One whose vector is wanted: its numbers come out whatever becomes of it meanwhile."""
        events = []
        sequence = Sequence(
            tuple(prompt), 0, priority, "", events.append, pooled=PooledText(self.backend.pooling)
        )
        self.events[sequence] = events
        self.runner.submit(sequence)
        return sequence

    @rule(priorities=st.permutations([Priority.CHAT, Priority.COMPLETION, Priority.CHAT]))
    def crowd(self, priorities):
        for first, priority in enumerate(priorities, 1):
            self.submit([first] + [2] * 60, 8, priority, "", None)
            self.step(4)

    @rule(sequence=requests)
    def cancel(self, sequence):
        self.runner.cancel(sequence)

    @rule(steps=st.integers(1, 6))
    def step(self, steps):
        for _ in range(steps):
            self.runner.step()

    @rule(data=st.data())
    def lose_a_chunk(self, data):
        if self.disk is not None and self.disk.chunks:
            del self.disk.chunks[data.draw(st.sampled_from(sorted(self.disk.chunks)))]

    @rule()
    def forget_memory(self):
        while self.runner._cache.evict_one():
            pass

    @rule(sequence=requests)
    def cancel_during_a_step(self, sequence):
        self.backend.inside = lambda: self.runner.cancel(sequence)
        self.runner.step()
        self.backend.inside = lambda: None

    @invariant()
    def backend_holds_exactly_what_the_runner_knows(self):
        if not hasattr(self, "runner"):
            return
        live = {s.kv: s.tokens[: s.computed] for s in self.events if s.kv is not None and not self.ended(s)}
        kept = {leaf.kv: leaf.tokens.tolist() for leaf in self.runner._cache._tree.leaves}
        assert not live.keys() & kept.keys()
        assert {seq: held.tokens for seq, held in self.backend.sequences.items()} == live | kept
        assert self.pages_counted()

    @invariant()
    def every_request_ends_at_most_once_and_says_what_a_solo_run_says(self):
        for sequence, events in getattr(self, "events", {}).items():
            assert sum(is_last(event) for event in events) <= 1
            if events and isinstance(events[-1], DeadlineExceeded | EngineBusy):
                assert len(events) == 1
                assert sequence.generated == 0
                continue
            solo = self.fakes.continuation(list(sequence.prompt), sequence.max_tokens)
            generated = sequence.tokens[len(sequence.prompt) :]
            assert generated == solo[: len(generated)]
            if sequence.pooled is not None and self.ended(sequence):
                assert sequence.kv is None
                if events[-1].finish is FinishReason.LENGTH:
                    states = [(token, place) for place, token in enumerate(sequence.prompt, 1)]
                    whole = normalised(np.sum(np.array(states, float), axis=0))
                    assert np.array_equal(sequence.pooled.vector(), whole)
            elif self.ended(sequence) and events[-1].finish is not FinishReason.CANCELLED:
                assert generated == solo or sequence.deadline is not None
                assert "".join(event.text for event in events) == self.fakes.text(generated)

    def teardown(self):
        if not hasattr(self, "runner"):
            return
        for _ in range(5000):
            if not self.runner.busy:
                break
            self.runner.step()
        assert all(self.ended(sequence) for sequence in self.events)
        self.every_request_ends_at_most_once_and_says_what_a_solo_run_says()
        self.backend_holds_exactly_what_the_runner_knows()
        self.forget_memory()
        assert self.backend.sequences == {}
        assert self.backend.free_tokens == self.backend.kv_tokens

    def ended(self, sequence):
        events = self.events[sequence]
        return bool(events) and is_last(events[-1])

    def pages_counted(self):
        owners = [0] * len(self.backend.references)
        for held in self.backend.sequences.values():
            assert len(held.pages) == -(-len(held.tokens) // self.backend.page)
            for page in held.pages:
                owners[page] += 1
        return owners == self.backend.references


@pytest.mark.timeout(300)
def test_any_schedule(fakes):
    from hypothesis.stateful import run_state_machine_as_test

    machine = type("Machine", (RunnerMachine,), {"fakes": fakes})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )
