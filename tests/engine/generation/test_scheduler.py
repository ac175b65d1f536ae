from engine.generation.scheduler import HEADROOM, PAGE_SLACK, STARVED_SECONDS, Scheduler
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
    assert scheduler.ready(0) == [chat]
    scheduler.add(completion)
    assert scheduler.ready(0) == [completion]
    scheduler.remove(completion)
    assert scheduler.ready(0) == [chat]


def test_no_more_requests_are_ready_than_fit_at_full_length():
    one = 20 + PAGE_SLACK
    sequences = [request() for _ in range(3)]
    for capacity, ready in ((one, 1), (2 * one - 1, 1), (2 * one, 2), (3 * one, 3)):
        scheduler = Scheduler(capacity)
        for sequence in sequences:
            scheduler.add(sequence)
        assert scheduler.ready(0) == sequences[:ready]


def test_the_first_request_is_always_ready():
    scheduler = Scheduler(30)
    sequence = request(length=20)
    scheduler.add(sequence)
    assert scheduler.ready(0) == [sequence]


def test_an_older_large_request_is_not_overtaken_by_a_small_one():
    scheduler = Scheduler(300)
    first, large, small = request(), request(length=200), request(length=1)
    for sequence in (first, large, small):
        scheduler.add(sequence)
    assert scheduler.ready(0) == [first]


def test_room_is_kept_for_some_growth_not_for_the_longest_answer():
    def talkative():
        return Sequence((1,) * 10, 5000, CHAT, "", lambda event: None)

    one = 10 + HEADROOM + PAGE_SLACK
    sequences = [talkative() for _ in range(9)]
    scheduler = Scheduler(8 * one)
    for sequence in sequences:
        scheduler.add(sequence)
    assert scheduler.ready(0) == sequences[:8]
    sequences[0].tokens += [1] * 10
    assert scheduler.ready(0) == sequences[:7], "what has grown leaves less room"


def test_a_less_urgent_request_that_starves_runs_beside_the_others():
    scheduler = Scheduler(10_000)
    chat, background, completion = request(CHAT), request(BACKGROUND), request()
    for sequence in (background, chat, completion):
        sequence.arrived = sequence.last_run = 1.0
        scheduler.add(sequence)
    assert scheduler.ready(1.0 + STARVED_SECONDS / 2) == [completion]
    assert scheduler.ready(1.0 + STARVED_SECONDS) == [completion, chat, background]
    chat.last_run = 1.0 + STARVED_SECONDS
    assert scheduler.ready(1.0 + STARVED_SECONDS) == [completion, background]


def test_victim_is_the_least_urgent_holder_of_kv_that_is_not_ready():
    scheduler = Scheduler(10_000)
    first, second, chat = request(), request(), request(CHAT)
    for sequence in (first, second, chat):
        scheduler.add(sequence)
    assert scheduler.victim([first]) is None
    first.kv = 1
    second.kv = 2
    assert scheduler.victim([first, second]) is second
    chat.kv = 3
    assert scheduler.victim([first, second]) is chat
    assert scheduler.victim([first, chat]) is second


def test_the_queue_of_a_class_has_a_limit_that_less_urgent_ones_do_not_use_up():
    scheduler = Scheduler(10_000, max_requests=2)
    for priority in (BACKGROUND, CHAT):
        assert not scheduler.full(BACKGROUND)
        scheduler.add(request(priority))
    assert [scheduler.full(priority) for priority in Priority] == [False, False, True]
    scheduler.add(request(CHAT))
    assert [scheduler.full(priority) for priority in Priority] == [False, True, True]
