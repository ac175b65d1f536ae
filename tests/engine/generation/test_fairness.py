"""Who waits for whom, counted in rows of the fake model: one row takes one millisecond."""

import pytest

from engine.backends.pooling import Pooling
from engine.generation import embedding
from engine.generation.pooling import PooledText
from engine.generation.runner import Runner
from engine.generation.scheduler import STARVED_SECONDS
from engine.generation.sequence import Sequence
from engine.generation.speed import MIN_CHUNK, Speed
from engine.types import Priority

ROW_SECONDS = 0.001
CHUNK = 96  # what the speed allows at 1,000 tokens a second


class Clocked:
    """A runner whose time passes with the rows that it computes."""

    def __init__(self, fakes, **backend):
        self.fakes = fakes
        self.backend = fakes.Backend(context_tokens=4096, page=64, **{"kv_tokens": 32768, **backend})
        self.now = 1.0
        speed = Speed()
        speed.prefill_tps = 1 / ROW_SECONDS
        speed.record = lambda *measured: None
        self.runner = Runner(self.backend, speed, clock=lambda: self.now)
        assert speed.chunk_tokens == CHUNK
        self.ended = {}

    def submit(self, length, *, first=1, max_tokens=1, priority=Priority.COMPLETION, pooled=None):
        prompt = (first, *[1 + n % 50 for n in range(length - 1)])

        def emit(event):
            if event.finish is not None:
                self.ended[sequence] = self.now

        output = _Endless() if max_tokens else None
        sequence = Sequence(prompt, max_tokens, priority, "", emit, output, pooled=pooled)
        self.runner.submit(sequence)
        return sequence

    def step(self):
        before = len(self.backend.calls)
        self.runner.step()
        if len(self.backend.calls) > before:
            self.now += ROW_SECONDS * sum(len(tokens) for _, tokens in self.backend.calls[-1])

    def run(self, until=lambda: False):
        for _ in range(20_000):
            if until() or not self.runner.busy:
                return
            self.step()
        raise AssertionError("no end")

    def latency(self, sequence):
        return self.ended[sequence] - sequence.arrived


class _Endless:
    """Draws a token that never ends the text."""

    def draw(self, logits, history):
        from engine.generation.sequence import Drawn

        return Drawn(5, "x", 0.0)

    def flush(self):
        return ""


@pytest.fixture
def clocked(fakes):
    return lambda **backend: Clocked(fakes, **backend)


@pytest.mark.parametrize("steps", range(0, 20, 3))
def test_a_completion_waits_at_most_one_chunk_of_a_chat_that_prefills(clocked, steps):
    alone = clocked()
    completion = alone.submit(60, first=2, max_tokens=8)
    alone.run()
    idle = alone.latency(completion)

    c = clocked()
    chat = c.submit(2000, first=3, max_tokens=100, priority=Priority.CHAT)
    for _ in range(steps):
        c.step()
    c.runner._scheduler.requests[0].last_run = c.now
    # It arrives just after a chunk began, which is then over when the runner hears of it.
    arrived = c.now
    c.step()
    completion = c.submit(60, first=2, max_tokens=8)
    completion.arrived = arrived
    c.run(lambda: completion in c.ended)
    assert c.latency(completion) <= idle + CHUNK * ROW_SECONDS + 1e-9
    c.run()
    assert chat in c.ended


def test_a_long_prefill_starves_nobody_of_its_class(clocked):
    c = clocked()
    long = c.submit(3000, first=2, priority=Priority.CHAT)
    c.step()
    short = [c.submit(50, first=10 + n, max_tokens=4, priority=Priority.CHAT) for n in range(7)]
    c.run(lambda: all(sequence in c.ended for sequence in short))
    assert long not in c.ended
    # All seven prompts are less than four chunks, and then there are three more steps to decode in.
    assert max(c.latency(sequence) for sequence in short) <= 8 * (CHUNK + 8) * ROW_SECONDS
    c.run()
    assert long in c.ended


def test_long_prefills_of_one_class_share_the_time(clocked):
    c = clocked()
    sequences = [c.submit(1500, first=2 + n, priority=Priority.CHAT) for n in range(4)]
    while c.runner.busy:
        c.step()
        done = [s.computed for s in sequences if s not in c.ended]
        if len(done) == 4:
            assert max(done) - min(done) <= CHUNK
    assert len(c.ended) == 4


def test_eight_sequences_decode_in_every_step_while_a_ninth_prefills(clocked):
    c = clocked()
    eight = [c.submit(20, first=2 + n, max_tokens=60, priority=Priority.CHAT) for n in range(8)]
    c.run(lambda: all(sequence.generated for sequence in eight))
    c.submit(2000, first=20, priority=Priority.CHAT)
    before = [sequence.generated for sequence in eight]
    for _ in range(15):
        c.step()
    assert [s.generated - b for s, b in zip(eight, before, strict=True)] == [15] * 8
    assert len(c.backend.calls[-1]) == 9


def test_one_step_computes_no_more_than_a_chunk_and_a_row_for_each_that_decodes(clocked):
    c = clocked()
    for n in range(20):
        c.submit(30 + 37 * n, first=2 + n, max_tokens=10, priority=Priority.CHAT)
    c.run()
    for call in c.backend.calls:
        prefilled = sum(len(tokens) for _, tokens in call if len(tokens) > 1)
        assert prefilled <= CHUNK


def test_short_prompts_share_a_chunk(clocked):
    c = clocked()
    for n in range(6):
        c.submit(16, first=2 + n)
    c.step()
    assert len(c.backend.calls[-1]) == CHUNK // 16


def test_a_chat_goes_on_however_many_completions_keep_coming(clocked):
    c = clocked()
    chat = c.submit(200, first=2, max_tokens=5, priority=Priority.CHAT)
    completions = 0
    while chat not in c.ended:
        if c.runner._scheduler.requests[0].priority != Priority.COMPLETION:
            completions += 1
            c.submit(100, first=3 + completions % 50, max_tokens=20)
        c.step()
        assert c.now < 30 * STARVED_SECONDS
        last = [len(tokens) for _, tokens in c.backend.calls[-1]]
        assert sum(rows for rows in last if rows > 1) <= CHUNK
    # 200 tokens in pieces of MIN_CHUNK, and five to decode, each after at most this long.
    assert completions > 10
    turns = -(-200 // MIN_CHUNK) + 5
    assert c.latency(chat) <= turns * (STARVED_SECONDS + 2 * CHUNK * ROW_SECONDS)


def test_a_starving_prefill_takes_the_smallest_chunk_beside_more_urgent_ones(clocked):
    c = clocked()
    c.submit(10, first=2, max_tokens=20)
    chat = c.submit(500, first=3, priority=Priority.CHAT)
    c.step()
    assert chat.computed == 0
    c.now += STARVED_SECONDS
    c.step()
    assert chat.computed == MIN_CHUNK
    assert [len(tokens) for _, tokens in c.backend.calls[-1]] == [1, MIN_CHUNK]


def test_texts_to_embed_are_computed_beside_completions_and_hold_them_up_little(clocked):
    c = clocked()
    in_flight = embedding.TEXTS_AT_ONCE * embedding.CALLS_AT_ONCE
    texts = [
        c.submit(40, first=3 + n, max_tokens=0, priority=Priority.BACKGROUND, pooled=PooledText(Pooling.MEAN))
        for n in range(in_flight)
    ]
    completions = []
    while not all(text in c.ended for text in texts):
        if not completions or completions[-1] in c.ended:
            completions.append(c.submit(60, first=20 + len(completions) % 30, max_tokens=60))
        c.step()
        assert c.now < 10 * STARVED_SECONDS
        assert sum(len(tokens) for _, tokens in c.backend.calls[-1]) <= CHUNK + MIN_CHUNK
    c.run()
    # One takes 120 rows alone, so in its time each text starves once at most.
    worst = max(c.latency(completion) for completion in completions)
    assert worst <= (120 + (in_flight + 1) * MIN_CHUNK) * ROW_SECONDS + 1e-9


def test_prompts_that_begin_alike_are_computed_once_though_they_come_together(clocked):
    c = clocked()
    sequences = [c.submit(1000, first=2, max_tokens=4, priority=Priority.CHAT) for _ in range(8)]
    c.run()
    rows = sum(len(tokens) for call in c.backend.calls for _, tokens in call)
    assert rows <= 1000 + 8 * 4
    assert [sequence.cached for sequence in sequences] == [0] + [999] * 7


def test_a_more_urgent_request_does_not_wait_for_a_less_urgent_one_that_begins_alike(clocked):
    c = clocked()
    warm = c.submit(2000, first=2, max_tokens=0, priority=Priority.BACKGROUND)
    c.step()
    c.now += STARVED_SECONDS  # so that the less urgent one may run beside it
    completion = c.submit(2000, first=2)
    c.step()
    assert completion.computed == 2 * CHUNK
    assert warm.computed == CHUNK
    c.run()


def test_a_victim_goes_on_with_what_the_tree_still_has(clocked):
    c = clocked(kv_tokens=4096 // 2)
    c.backend.context_tokens = 2048
    chat = c.submit(1400, first=2, max_tokens=50, priority=Priority.CHAT)
    c.run(lambda: chat.generated > 10)
    completion = c.submit(900, first=3, max_tokens=5)
    c.run(lambda: completion in c.ended)
    assert c.runner.metrics.preemptions == 1
    assert chat.kv is None
    before = c.runner.metrics.prefilled_tokens
    c.run()
    assert 0 < c.runner.metrics.prefilled_tokens - before < 600, "not all of its 1,400 again"
    assert chat.generated == 50
