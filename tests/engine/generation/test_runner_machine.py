"""Any mixture of arrivals, cancellations, interrupts and memory pressure keeps the runner's promises."""

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from engine.generation.runner import Runner
from engine.generation.sequence import Sequence
from engine.generation.speed import Speed
from engine.types import FinishReason, Priority, TextDelta

CONTEXT = 32

# Few different tokens, so that prefixes are often shared; runs longer than a prefill chunk.
prompts = st.one_of(
    st.lists(st.integers(1, 3), min_size=1, max_size=8),
    st.builds(lambda n, tail: [1] * n + tail, st.integers(1, 20), st.lists(st.integers(1, 3), max_size=4)),
)


class RunnerMachine(RuleBasedStateMachine):
    fakes = None
    requests = Bundle("requests")

    @initialize(kv_tokens=st.sampled_from([CONTEXT, 2 * CONTEXT, 8 * CONTEXT, 64 * CONTEXT]))
    def start(self, kv_tokens):
        self.backend = self.fakes.Backend(context_tokens=CONTEXT, kv_tokens=kv_tokens)
        clock = itertools.count(1)
        self.runner = Runner(self.backend, Speed(), clock=lambda: next(clock))
        self.events = {}

    @rule(
        target=requests,
        prompt=prompts,
        max_tokens=st.integers(0, 8),
        priority=st.sampled_from(Priority),
        session=st.sampled_from(["", "a", "b"]),
    )
    def submit(self, prompt, max_tokens, priority, session):
        events = []
        output = self.fakes.Output() if max_tokens else None
        sequence = Sequence(tuple(prompt), max_tokens, priority, session, events.append, output)
        self.events[sequence] = events
        self.runner.submit(sequence)
        return sequence

    @rule(sequence=requests)
    def cancel(self, sequence):
        self.runner.cancel(sequence)

    @rule(steps=st.integers(1, 6))
    def step(self, steps):
        for _ in range(steps):
            self.runner.step()

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
            assert all(isinstance(event, TextDelta) for event in events)
            assert sum(event.finish is not None for event in events) <= 1
            solo = self.fakes.continuation(list(sequence.prompt), sequence.max_tokens)
            generated = sequence.tokens[len(sequence.prompt) :]
            assert generated == solo[: len(generated)]
            if self.ended(sequence) and events[-1].finish is not FinishReason.CANCELLED:
                assert generated == solo
                assert "".join(event.text for event in events) == self.fakes.text(solo)

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
        while self.runner._cache.evict_one():
            pass
        assert self.backend.sequences == {}
        assert self.backend.free_tokens == self.backend.kv_tokens

    def ended(self, sequence):
        events = self.events[sequence]
        return bool(events) and events[-1].finish is not None

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
