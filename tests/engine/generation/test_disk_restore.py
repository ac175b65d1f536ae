"""Requests whose prefix is on the disk: they wait for it beside the others, and never for long."""

import numpy as np
import pytest

from engine.generation.residency import RESTORE_SECONDS
from engine.generation.runner import RESTORE_TICK_SECONDS, SAVE_AFTER_SECONDS, Runner
from engine.generation.sequence import Sequence
from engine.generation.speed import Speed
from engine.types import FinishReason, Priority

PAGE = 4
CHUNK = 16
PROMPT = tuple(1 + n % 50 for n in range(50))
WHOLE_CHUNKS = 48


class Restarted:
    """A runner with empty memory over a disk that knows PROMPT."""

    def __init__(self, fakes, *, late=0, **backend):
        self.fakes = fakes
        self.disk = fakes.Disk(page=PAGE)
        self.now = 1.0
        self.start(context_tokens=256, page=PAGE)
        self.submit(PROMPT)
        self.run()
        self.runner.save(1.0)
        self.disk.writable, self.disk.late = True, late
        self.start(**{"context_tokens": 256, "page": PAGE, **backend})

    def start(self, **backend):
        self.backend = self.fakes.Backend(**backend)
        self.runner = Runner(self.backend, Speed(), clock=lambda: self.now, disk=self.disk)

    def submit(self, prompt, *, priority=Priority.COMPLETION, max_tokens=4):
        """The request and its events."""
        events = []
        sequence = Sequence(tuple(prompt), max_tokens, priority, "", events.append, self.fakes.Output())
        self.runner.submit(sequence)
        return sequence, events

    def run(self):
        for _ in range(500):
            if not self.runner.busy:
                return
            self.runner.step()
        raise AssertionError("no end")

    def rows(self):
        return sum(len(tokens) for call in self.backend.calls for _, tokens in call)

    def assert_right(self, sequence, events):
        assert events[-1].finish in (FinishReason.LENGTH, FinishReason.STOP)
        expected = self.fakes.continuation(list(sequence.prompt), sequence.max_tokens)
        assert sequence.tokens[len(sequence.prompt) :] == expected


@pytest.fixture
def restarted(fakes):
    return lambda **options: Restarted(fakes, **options)


def test_a_prefix_on_the_disk_is_not_computed_again(restarted):
    r = restarted()
    sequence, events = r.submit(PROMPT)
    r.run()
    r.assert_right(sequence, events)
    assert events[-1].timing.cached_tokens == WHOLE_CHUNKS
    assert r.rows() == len(PROMPT) - WHOLE_CHUNKS + sequence.generated - 1
    assert r.runner.metrics.disk_tokens == WHOLE_CHUNKS


def test_issue_364_a_prefix_that_ends_with_the_prompt_is_saved_and_found(restarted):
    r = restarted()
    r.submit((*PROMPT[:WHOLE_CHUNKS], 9))
    r.run()
    again, events = r.submit(PROMPT[:WHOLE_CHUNKS])
    r.run()
    r.assert_right(again, events)
    assert again.cached == WHOLE_CHUNKS - 1, "all but the token that the next one is drawn from"


def test_what_memory_knows_better_is_not_read(restarted):
    r = restarted()
    r.submit(PROMPT)
    r.run()
    before = r.runner.metrics.disk_tokens
    sequence, events = r.submit((*PROMPT[:47], 9, 9))
    r.run()
    r.assert_right(sequence, events)
    assert sequence.cached == 47
    assert r.runner.metrics.disk_tokens == before


def test_for_less_than_a_page_the_disk_is_not_asked(restarted):
    r = restarted()
    r.disk.listed.clear()
    r.submit((*PROMPT[:47], 9))
    r.run()
    r.disk.listed |= set(r.disk.chunks)
    sequence, _ = r.submit(PROMPT)
    r.run()
    assert sequence.cached == 47


def test_the_disk_goes_on_where_memory_ends(restarted):
    r = restarted()
    r.submit((*PROMPT[:20], 9))
    r.disk.listed.clear()
    r.run()
    r.disk.listed |= set(r.disk.chunks)
    sequence, events = r.submit(PROMPT)
    r.run()
    r.assert_right(sequence, events)
    assert sequence.cached == WHOLE_CHUNKS
    assert r.runner.metrics.disk_tokens == WHOLE_CHUNKS - CHUNK, "the first chunk was in memory"
    assert r.runner.metrics.memory_tokens == CHUNK


def test_others_run_while_a_prefix_is_read(restarted):
    r = restarted(late=20)
    waiting, events = r.submit(PROMPT)
    other, other_events = r.submit([3, 4, 5])
    for _ in range(8):
        r.runner.step()
    r.assert_right(other, other_events)
    assert waiting.restore is not None
    r.run()
    r.assert_right(waiting, events)
    assert waiting.cached == WHOLE_CHUNKS


def test_while_all_wait_for_the_disk_the_runner_has_patience(restarted):
    r = restarted(late=3)
    assert r.runner.patience() is None
    r.submit(PROMPT)
    r.runner.step()
    assert r.runner.patience() == RESTORE_TICK_SECONDS
    assert r.backend.calls == []
    r.submit([3, 4, 5])
    assert r.runner.patience() == 0
    r.run()


def test_a_disk_that_is_too_slow_is_not_waited_for(restarted):
    r = restarted(late=30)
    sequence, events = r.submit(PROMPT)
    for _ in range(40):
        r.runner.step()
    assert sequence.computed == CHUNK
    r.now += RESTORE_SECONDS
    r.run()
    r.assert_right(sequence, events)
    assert sequence.cached == CHUNK


def test_where_a_chunk_is_missing_memory_may_know_more_by_then(restarted):
    r = restarted(late=1)
    sequence, events = r.submit(PROMPT)
    r.runner.step()
    assert sequence.restore is not None
    del r.disk.chunks[r.disk.keys(sequence.prompt_ids)[1]]
    seq, ids = r.backend.new_sequence(), np.array(PROMPT[:45], np.int32)
    r.backend.forward(np.full(45, seq, np.int32), ids, np.zeros(45, np.bool_))
    r.runner._cache.keep(seq, ids)
    r.run()
    r.assert_right(sequence, events)
    assert sequence.cached == 45


def test_a_request_cancelled_while_it_waits_ends_and_leaves_what_came(restarted):
    r = restarted(late=2)
    sequence, events = r.submit(PROMPT)
    for _ in range(4):
        r.runner.step()
    assert sequence.computed == CHUNK
    restore = sequence.restore
    r.runner.cancel(sequence)
    r.runner.step()
    assert events[-1].finish is FinishReason.CANCELLED
    assert restore.cancelled
    again, events = r.submit((*PROMPT[:CHUNK], 9, 9))
    r.run()
    r.assert_right(again, events)
    assert r.runner.metrics.memory_tokens == CHUNK


def test_a_victim_may_lose_what_was_restored_and_its_timing_tells_only_what_it_found(restarted):
    r = restarted(kv_tokens=80)
    chat, chat_events = r.submit(PROMPT, priority=Priority.CHAT, max_tokens=20)
    for _ in range(2):
        r.runner.step()
    assert chat.generated == 1
    completion, events = r.submit([7] * 70)
    r.run()
    r.assert_right(completion, events)
    r.assert_right(chat, chat_events)
    assert r.runner.metrics.preemptions == 1
    assert chat_events[-1].timing.cached_tokens == WHOLE_CHUNKS


def test_what_a_victim_computed_itself_does_not_count_as_found(restarted):
    r = restarted(kv_tokens=80)
    chat, events = r.submit([3] * 50, priority=Priority.CHAT, max_tokens=20)
    for _ in range(4):
        r.runner.step()
    r.submit([7] * 70)
    r.run()
    r.assert_right(chat, events)
    assert r.runner.metrics.preemptions == 1
    assert r.runner.metrics.disk_tokens > 0, "its pages went to the disk and came back"
    assert events[-1].timing.cached_tokens == 0


def test_saving_waits_until_nothing_has_come_for_a_while(restarted):
    r = restarted()
    r.disk.listed.clear()
    r.now += 1000.0
    r.submit([5] * 40)
    r.run()
    assert r.runner.patience() == SAVE_AFTER_SECONDS
    r.runner.step()
    assert not r.disk.listed
    r.now += r.runner.patience()
    assert r.runner.patience() == 0
    r.runner.step()
    assert len(r.disk.listed) == 1, "one chunk at a time, so that a request need not wait"
    while r.runner.patience() == 0:
        r.runner.step()
    assert len(r.disk.listed) == 2
    assert r.runner.patience() is None


def test_a_disk_that_keeps_nothing_is_not_written_to_for_ever(restarted):
    r = restarted()
    offered = []
    r.disk.save = lambda keys, index, copy: offered.append(index)
    r.disk.listed.clear()
    r.submit([5] * 70)
    r.run()
    r.now += SAVE_AFTER_SECONDS
    for _ in range(20):
        r.runner.step()
    assert offered == [0, 1, 2, 3]
    assert r.runner.patience() is None


def test_what_a_failing_disk_lost_is_offered_once_more(restarted):
    r = restarted()
    offered, save = [], r.disk.save

    def lose(keys, index, copy):
        offered.append(index)
        r.disk.lost += 1
        r.disk.writable = False

    r.disk.save = lose
    r.disk.listed.clear()
    r.submit([5] * 70)
    r.run()
    r.now += SAVE_AFTER_SECONDS
    r.runner.step()
    assert offered == [0]
    assert r.runner.patience() is None
    r.disk.save, r.disk.writable = save, True
    while r.runner.patience() == 0:
        r.runner.step()
    assert len(r.disk.listed) == 4


def test_a_continued_sequence_offers_only_what_is_new(restarted):
    r = restarted()
    r.submit([5] * 40)
    r.run()
    r.now += SAVE_AFTER_SECONDS
    while r.runner.patience() == 0:
        r.runner.step()
    offered = []
    r.disk.save = lambda keys, index, copy: offered.append(index)
    r.submit([5] * 90)
    r.run()
    r.now += SAVE_AFTER_SECONDS
    while r.runner.patience() == 0:
        r.runner.step()
    assert offered == [2, 3, 4]


def test_what_comes_in_place_of_an_evicted_end_is_offered(restarted):
    r = restarted()
    r.submit([5] * 40, max_tokens=1)
    r.run()
    r.now += SAVE_AFTER_SECONDS
    while r.runner.patience() == 0:
        r.runner.step()
    r.runner._cache.evict_one()
    r.runner._cache.evict_one()
    offered = []
    r.disk.save = lambda keys, index, copy: offered.append(index)
    r.submit([5] * CHUNK + [6] * 24, max_tokens=1)
    r.run()
    r.now += SAVE_AFTER_SECONDS
    while r.runner.patience() == 0:
        r.runner.step()
    assert offered == [1]
