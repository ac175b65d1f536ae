"""The generation loop over the fake model: right tokens, right order, nothing leaked."""

import numpy as np
import pytest

from engine.backends.pooling import Pooling
from engine.errors import DeadlineExceeded, EngineBusy, HearthError, RequestError
from engine.generation.pooling import PooledText, normalised
from engine.generation.runner import Runner
from engine.generation.sequence import Sequence
from engine.generation.speed import MIN_CHUNK, Speed
from engine.types import FinishReason, Priority


class Bench:
    """A runner, its backend and the events of each request."""

    def __init__(self, fakes, **backend):
        self.fakes = fakes
        self.backend = fakes.Backend(**backend)
        self.now = 1.0
        self.runner = Runner(self.backend, Speed(), clock=lambda: self.now)
        self.events = {}

    def submit(self, prompt, *, max_tokens=8, priority=Priority.COMPLETION, session="", deadline=None):
        events = []
        sequence = Sequence(
            prompt=tuple(prompt),
            max_tokens=max_tokens,
            priority=priority,
            session=session,
            emit=events.append,
            output=self.fakes.Output() if max_tokens else None,
            deadline=deadline,
        )
        self.events[sequence] = events
        self.runner.submit(sequence)
        return sequence

    def run(self, limit=1000):
        for _ in range(limit):
            if not self.runner.busy:
                return
            self.runner.step()
        raise AssertionError("the runner does not come to an end")

    def text(self, sequence):
        return "".join(event.text for event in self.events[sequence])

    def expected(self, sequence):
        return self.fakes.continuation(list(sequence.prompt), sequence.max_tokens)

    def assert_complete(self, sequence):
        assert sequence.tokens[len(sequence.prompt) :] == self.expected(sequence)
        assert self.text(sequence) == self.fakes.text(self.expected(sequence))
        *pieces, last = self.events[sequence]
        assert all(piece.finish is None and piece.text for piece in pieces)
        stopped = self.expected(sequence)[-1] == self.fakes.END
        assert last.finish is (FinishReason.STOP if stopped else FinishReason.LENGTH)
        assert sum(event.tokens for event in self.events[sequence]) == sequence.generated
        assert sum(event.logprob for event in self.events[sequence]) == -sequence.generated


@pytest.fixture
def bench(fakes):
    return lambda **backend: Bench(fakes, **backend)


def test_one_request_gives_the_greedy_continuation(bench):
    b = bench()
    sequence = b.submit([1, 2, 3])
    b.run()
    b.assert_complete(sequence)


def test_long_prompts_are_prefilled_in_chunks(bench):
    b = bench(context_tokens=128)
    sequence = b.submit(range(1, 41), max_tokens=1)
    b.run()
    assert [len(tokens) for ((_, tokens),) in b.backend.calls] == [MIN_CHUNK, MIN_CHUNK, 40 - 2 * MIN_CHUNK]
    b.assert_complete(sequence)


def test_requests_of_one_class_decode_in_one_forward_and_never_mix(bench):
    b = bench(context_tokens=128)
    sequences = [b.submit([n, 7, n + 1], max_tokens=20) for n in range(1, 6)]
    b.run()
    for sequence in sequences:
        b.assert_complete(sequence)
    assert max(len(call) for call in b.backend.calls) >= 4


def test_a_long_prefill_does_not_stop_others_of_its_class(bench):
    b = bench(context_tokens=128)
    first = b.submit([5, 6], max_tokens=20)
    b.runner.step()
    b.submit(range(1, 60), max_tokens=1)
    before = first.generated
    b.runner.step()
    assert [len(tokens) for _, tokens in b.backend.calls[-1]] == [1, MIN_CHUNK]
    assert first.generated == before + 1


def test_a_completion_goes_before_a_running_chat_and_both_end_right(bench):
    b = bench()
    chat = b.submit([9, 9], max_tokens=30, priority=Priority.CHAT)
    for _ in range(3):
        b.runner.step()
    generated = chat.generated
    completion = b.submit([4, 5, 6], max_tokens=5)
    while not b.events[completion] or b.events[completion][-1].finish is None:
        b.runner.step()
    assert chat.generated == generated
    b.run()
    b.assert_complete(chat)
    b.assert_complete(completion)


def test_requests_of_one_class_start_in_order_of_age(bench):
    b = bench(context_tokens=128)
    first, second = b.submit(range(1, 30)), b.submit(range(30, 60))
    b.runner.step()
    assert (first.computed, second.computed) == (MIN_CHUNK, 0)


def test_cancelled_request_ends_once_at_the_next_step(bench):
    b = bench()
    sequence = b.submit([1, 2, 3], max_tokens=50)
    for _ in range(3):
        b.runner.step()
    b.runner.cancel(sequence)
    b.run()
    assert [event.finish for event in b.events[sequence]][-1] is FinishReason.CANCELLED
    assert sum(event.finish is not None for event in b.events[sequence]) == 1
    assert sequence.generated == 3


def test_cancel_interrupts_the_forward_of_its_own_prefill_only(bench):
    b = bench(context_tokens=128)
    doomed = b.submit(range(1, 40), max_tokens=4)
    b.backend.inside = lambda: b.runner.cancel(doomed)
    b.runner.step()
    assert b.backend.calls == []
    assert doomed.computed == 0

    other, doomed = b.submit([3, 4], max_tokens=20), b.submit([5, 6], max_tokens=20)
    b.backend.inside = lambda: None
    b.runner.step()
    b.runner.step()
    calls = len(b.backend.calls)
    b.backend.inside = lambda: b.runner.cancel(doomed)
    b.runner.step()
    assert len(b.backend.calls) == calls + 1, "half of a shared decode step is not worth interrupting"
    b.backend.inside = lambda: None
    b.run()
    b.assert_complete(other)


def test_the_next_request_continues_the_cached_prefix(bench):
    b = bench()
    b.submit([1, 2, 3, 4, 5, 6], max_tokens=2, session="a")
    b.run()
    b.backend.calls.clear()
    sequence = b.submit([1, 2, 3, 4, 9], max_tokens=1, session="b")
    b.run()
    assert [tokens for ((_, tokens),) in b.backend.calls] == [[9]]
    assert b.events[sequence][-1].timing.cached_tokens == 4
    b.assert_complete(sequence)


def test_equal_prompts_at_once_are_prefilled_once(bench):
    b = bench()
    sequences = [b.submit(range(1, 13), max_tokens=3) for _ in range(3)]
    b.run()
    for sequence in sequences:
        b.assert_complete(sequence)
    assert [sequence.cached for sequence in sequences] == [0, 11, 11]


def test_warming_leaves_a_cache_and_generates_nothing(bench):
    b = bench()
    warm = b.submit(range(1, 21), max_tokens=0, session="a")
    b.run()
    (event,) = b.events[warm]
    assert (event.text, event.tokens, event.finish) == ("", 0, FinishReason.LENGTH)
    sequence = b.submit(range(1, 21), session="a")
    b.run()
    assert sequence.cached == 19
    b.assert_complete(sequence)


def test_a_newer_request_of_the_session_supersedes_warming_but_keeps_its_work(bench):
    b = bench(context_tokens=128)
    warm = b.submit(range(1, 60), max_tokens=0, session="a", priority=Priority.BACKGROUND)
    other = b.submit(range(1, 60), max_tokens=0, session="b", priority=Priority.BACKGROUND)
    b.runner.step()
    sequence = b.submit(range(1, 40), session="a")
    b.run()
    assert b.events[warm][-1].finish is FinishReason.CANCELLED
    assert b.events[other][-1].finish is FinishReason.LENGTH
    assert sequence.cached == MIN_CHUNK
    b.assert_complete(sequence)


def test_idle_sequences_give_way_to_running_ones(bench):
    b = bench(context_tokens=32, kv_tokens=64)
    for n in range(1, 9):
        sequence = b.submit([n] * 24, session=str(n))
        b.run()
        b.assert_complete(sequence)


def test_a_full_pool_takes_pages_from_the_least_urgent_request_which_still_ends_right(bench):
    b = bench(context_tokens=32, kv_tokens=32)
    chat = b.submit([9] * 16, max_tokens=14, priority=Priority.CHAT)
    b.runner.step()
    b.runner.step()
    completion = b.submit([4] * 20, max_tokens=8)
    b.run()
    assert sum(len(tokens) for call in b.backend.calls for _, tokens in call if tokens[0] == 9) > 30
    b.assert_complete(completion)
    b.assert_complete(chat)


def test_a_text_that_loses_its_pages_to_a_completion_is_pooled_anew(bench):
    b = bench(context_tokens=80, kv_tokens=80)
    prompt = [1 + n % 63 for n in range(70)]
    events = []
    text = Sequence(tuple(prompt), 0, Priority.BACKGROUND, "", events.append, pooled=PooledText(Pooling.MEAN))
    b.runner.submit(text)
    b.runner.step()
    b.runner.step()
    assert 0 < text.computed < 70
    urgent = b.submit([2] * 60)
    b.run()
    assert b.runner.metrics.preemptions == 1
    b.assert_complete(urgent)
    assert [event.finish for event in events] == [FinishReason.LENGTH]
    states = [(token, place) for place, token in enumerate(prompt, 1)]
    assert np.array_equal(text.pooled.vector(), normalised(np.sum(np.array(states, float), axis=0)))
    assert text.kv is None


def test_a_text_for_a_model_that_makes_no_vectors_is_refused(bench):
    b = bench()
    b.backend.hidden_states = None
    events = []
    b.runner.submit(Sequence((1,), 0, Priority.CHAT, "", events.append, pooled=PooledText(Pooling.MEAN)))
    assert "makes no embeddings" in str(events[0])
    assert not b.runner.busy


def test_a_request_too_large_for_the_pool_fails_with_words_and_others_live(bench):
    b = bench(context_tokens=64, kv_tokens=32)
    large = b.submit([5] * 40)
    small = b.submit([6] * 4)
    b.run()
    (error,) = b.events[large]
    assert isinstance(error, RequestError)
    assert "KV cache of 32 tokens" in str(error)
    b.assert_complete(small)


def test_a_request_whose_token_cannot_be_drawn_ends_alone(bench):
    b = bench()
    broken, fine = b.submit([1, 2, 3]), b.submit([4, 5])
    error = HearthError("No token is possible.")

    def refuse(logits, history):
        raise error

    broken.output.draw = refuse
    b.run()
    assert b.events[broken] == [error]
    b.assert_complete(fine)
    assert len(b.backend.sequences) == 1, "the broken one's KV is not kept"


def test_without_a_free_sequence_a_request_gets_that_of_a_less_urgent_one(bench):
    b = bench(context_tokens=128, max_sequences=2)
    chats = [b.submit([n] * 20, max_tokens=20, priority=Priority.CHAT) for n in range(1, 4)]
    for _ in range(4):
        b.runner.step()
    assert len(b.backend.sequences) == 2
    completion = b.submit([9] * 20)
    b.run()
    for sequence in (*chats, completion):
        b.assert_complete(sequence)
    assert b.runner.metrics.preemptions >= 1


@pytest.mark.parametrize("prompt", [[], [1] * 60, [1, 64], [-1, 1], [2**70, 1]])
def test_unusable_prompts_are_refused_with_words(bench, prompt):
    b = bench(context_tokens=64)
    sequence = b.submit(prompt)
    assert isinstance(b.events[sequence][0], RequestError)
    assert not b.runner.busy


def test_the_queue_is_bounded_and_says_when_to_come_again(bench):
    b = bench()
    b.runner._speed.prefill_tps, b.runner._speed.decode_tps = 100.0, 2.0
    sequences = [b.submit([1, 2]) for _ in range(70)]
    refused = [b.events[s][0] for s in sequences if b.events[s]]
    assert len(refused) == 6
    assert all(isinstance(error, EngineBusy) for error in refused)
    assert refused[0].retry_after == pytest.approx(2 / 100 + 8 / 2)
    b.run()
    assert b.runner.metrics.refused == 6


def test_without_a_measured_speed_a_refused_request_waits_a_second(bench):
    b = bench()
    error = [b.events[b.submit([1, 2])] for _ in range(65)][-1][0]
    assert error.retry_after == 1.0


def test_a_request_past_its_deadline_ends_with_what_it_has(bench):
    b = bench()
    sequence, other = b.submit([1, 2, 3], max_tokens=50, deadline=5.0), b.submit([4, 5])
    for _ in range(3):
        b.runner.step()
    b.now = 5.0
    b.run()
    assert b.events[sequence][-1].finish is FinishReason.LENGTH
    generated = sequence.tokens[3:]
    assert len(generated) == 3
    assert b.text(sequence) == b.fakes.text(generated)
    b.assert_complete(other)
    assert b.runner.metrics.expired == 1


def test_a_request_past_its_deadline_without_a_token_fails_with_words_and_leaves_its_work(bench):
    b = bench(context_tokens=128)
    sequence = b.submit(range(1, 50), deadline=5.0)
    b.runner.step()
    b.now = 7.5
    b.run()
    (error,) = b.events[sequence]
    assert isinstance(error, DeadlineExceeded)
    assert "in 6.5 s" in str(error)
    again = b.submit(range(1, 50))
    b.run()
    assert again.cached == MIN_CHUNK
    b.assert_complete(again)


def test_timing_tells_queue_prefill_and_decode_apart(bench):
    b = bench()
    sequence = b.submit([1, 2, 3], max_tokens=2)
    b.now = 3.0
    b.backend.inside = lambda: setattr(b, "now", b.now + 10)
    b.run()
    timing = b.events[sequence][-1].timing
    assert (timing.queue_s, timing.prefill_s, timing.decode_s) == (2.0, 10.0, 10.0 * (sequence.generated - 1))
    assert (timing.prompt_tokens, timing.cached_tokens, timing.generated_tokens) == (3, 0, sequence.generated)
