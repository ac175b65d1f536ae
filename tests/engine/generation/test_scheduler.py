import pytest

from engine.errors import RequestError
from engine.generation.scheduler import PAGE_SLACK, Scheduler
from engine.generation.sequence import Sequence
from engine.types import Priority

COMPLETION, CHAT, BACKGROUND = Priority


def request(priority=COMPLETION, length=10):
    return Sequence(tuple([1] * length), 10, priority, "", lambda event: None)


def test_order_is_priority_then_age():
    scheduler = Scheduler(10_000)
    late, chat, early = request(BACKGROUND), request(CHAT), request()
    second = request()
    for sequence in (late, chat, early, second):
        scheduler.add(sequence)
    assert list(scheduler.requests) == [early, second, chat, late]


def test_only_the_most_urgent_class_is_ready():
    scheduler = Scheduler(10_000)
    chat, completion = request(CHAT), request()
    scheduler.add(chat)
    assert scheduler.ready() == [chat]
    scheduler.add(completion)
    assert scheduler.ready() == [completion]
    scheduler.remove(completion)
    assert scheduler.ready() == [chat]


def test_no_more_requests_are_ready_than_fit_at_full_length():
    one = 20 + PAGE_SLACK
    sequences = [request() for _ in range(3)]
    for capacity, ready in ((one, 1), (2 * one - 1, 1), (2 * one, 2), (3 * one, 3)):
        scheduler = Scheduler(capacity)
        for sequence in sequences:
            scheduler.add(sequence)
        assert scheduler.ready() == sequences[:ready]


def test_the_first_request_is_always_ready():
    scheduler = Scheduler(30)
    sequence = request(length=20)
    scheduler.add(sequence)
    assert scheduler.ready() == [sequence]


def test_an_older_large_request_is_not_overtaken_by_a_small_one():
    scheduler = Scheduler(300)
    first, large, small = request(), request(length=200), request(length=1)
    for sequence in (first, large, small):
        scheduler.add(sequence)
    assert scheduler.ready() == [first]


def test_victim_is_the_least_urgent_holder_of_kv():
    scheduler = Scheduler(10_000)
    first, second, chat = request(), request(), request(CHAT)
    for sequence in (first, second, chat):
        scheduler.add(sequence)
    assert scheduler.victim() is None
    first.kv = 1
    second.kv = 2
    assert scheduler.victim() is second
    chat.kv = 3
    assert scheduler.victim() is chat


def test_a_full_queue_refuses_with_words():
    scheduler = Scheduler(10_000, max_requests=2)
    scheduler.add(request())
    scheduler.add(request())
    with pytest.raises(RequestError, match="already has 2 requests"):
        scheduler.add(request())
    assert len(scheduler.requests) == 2
