"""One running, one waiting; order is told by events, never by the clock."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.inline_completion.dispatcher import Dispatcher


class Work:
    """Work that runs until `finish` is set and notes what happened to it; `follows` newer work or not."""

    def __init__(self, name, log, follows=False):
        self.name = name
        self.log = log
        self.follows = follows
        self.finish = asyncio.Event()

    def follow(self, newer):
        if self.follows:
            self.log.append(f"{self.name} follows {newer.name}")
        return self.follows

    async def run(self):
        self.log.append(f"{self.name} starts")
        try:
            await self.finish.wait()
        except asyncio.CancelledError:
            self.log.append(f"{self.name} stops")
            raise
        self.log.append(f"{self.name} ends")
        return self.name


@pytest.fixture
def log():
    return []


@pytest.fixture
def work(log):
    return lambda name, **options: Work(name, log, **options)


class Plain:
    """Work that is one function."""

    def __init__(self, run, follows=False):
        self.run, self.follows = run, follows

    def follow(self, newer):
        return self.follows


async def turns(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_work_gives_its_result(work):
    dispatcher, a = Dispatcher(), work("a")
    a.finish.set()
    assert await dispatcher.submit("doc", a) == "a"


async def test_a_newer_request_answers_the_running_one_at_once_and_waits_for_it_to_let_go(work, log):
    dispatcher, a, b = Dispatcher(), work("a"), work("b")
    first = dispatcher.submit("doc", a)
    await turns()
    second = dispatcher.submit("doc", b)
    assert first.result() is None  # before the loop had any turn
    await turns(5)
    b.finish.set()
    assert await second == "b"
    assert log == ["a starts", "a stops", "b starts", "b ends"]


async def test_the_waiting_one_is_replaced_and_never_starts(work, log):
    dispatcher = Dispatcher()
    hold = asyncio.Event()

    async def slow_to_stop():
        try:
            await asyncio.Event().wait()
        finally:
            await hold.wait()

    running = dispatcher.submit("doc", Plain(slow_to_stop))
    await turns()
    b, c = work("b"), work("c")
    waiting = dispatcher.submit("doc", b)
    newest = dispatcher.submit("doc", c)
    assert (running.result(), waiting.result()) == (None, None)
    await turns(5)
    assert log == []  # the engine still works for the first: nothing else runs beside it
    hold.set()
    c.finish.set()
    assert await newest == "c"
    assert log == ["c starts", "c ends"]


async def test_work_that_follows_goes_on_and_answers_the_newest(work, log):
    dispatcher, a = Dispatcher(), work("a", follows=True)
    answers = [dispatcher.submit("doc", a)]
    await turns()
    for name in ("b", "c"):
        answers.append(dispatcher.submit("doc", work(name)))
        assert answers[-2].result() is None  # before the loop had any turn
        await turns()
    a.finish.set()
    assert await answers[-1] == "a"
    assert log == ["a starts", "a follows b", "a follows c", "a ends"]


async def test_cancelling_the_newest_stops_the_work_that_followed(work, log):
    dispatcher, a, c = Dispatcher(), work("a", follows=True), work("c")
    dispatcher.submit("doc", a)
    await turns()
    newest = dispatcher.submit("doc", work("b"))
    newest.cancel()
    last = dispatcher.submit("doc", c)  # what stops follows no more
    c.finish.set()
    assert await last == "c"
    assert log == ["a starts", "a follows b", "a stops", "c starts", "c ends"]


async def test_a_failure_reaches_the_request_that_was_followed(work):
    dispatcher = Dispatcher()
    gate = asyncio.Event()

    async def fail():
        await gate.wait()
        raise ValueError("x")

    failing = Plain(fail, follows=True)
    first = dispatcher.submit("doc", failing)
    await turns()
    second = dispatcher.submit("doc", work("b"))
    gate.set()
    with pytest.raises(ValueError):
        await second
    assert first.result() is None


async def test_documents_do_not_disturb_each_other(work, log):
    dispatcher, a, b = Dispatcher(), work("a"), work("b")
    first, second = dispatcher.submit("one", a), dispatcher.submit("two", b)
    a.finish.set()
    b.finish.set()
    assert [await first, await second] == ["a", "b"]


async def test_cancelling_stops_the_work_within_a_turn(work, log):
    dispatcher, a = Dispatcher(), work("a")
    answer = dispatcher.submit("doc", a)
    await turns()
    answer.cancel()
    await turns(2)
    assert log == ["a starts", "a stops"]


async def test_cancelling_before_the_first_turn_never_starts_it(work, log):
    dispatcher, a, b = Dispatcher(), work("a"), work("b")
    dispatcher.submit("doc", a).cancel()
    await turns(5)
    assert log == []
    b.finish.set()
    assert await dispatcher.submit("doc", b) == "b"


async def test_work_that_cleans_up_is_not_cancelled_again(work, log):
    dispatcher = Dispatcher()
    hold = asyncio.Event()

    async def slow_to_stop():
        try:
            await asyncio.Event().wait()
        finally:
            await hold.wait()
            log.append("cleaned up")

    answer = dispatcher.submit("doc", Plain(slow_to_stop))
    await turns()
    answer.cancel()
    await turns()
    dispatcher.submit("doc", work("b"))
    dispatcher.drop("doc")
    await turns()
    hold.set()
    await dispatcher.close()
    assert log == ["cleaned up"]


async def test_drop_answers_all_of_a_document(work, log):
    dispatcher, a, b = Dispatcher(), work("a"), work("b")
    first = dispatcher.submit("doc", a)
    await turns()
    second = dispatcher.submit("doc", b)
    dispatcher.drop("doc")
    assert (first.result(), second.result()) == (None, None)
    await turns(5)
    assert log == ["a starts", "a stops"]


async def test_failures_reach_the_caller_and_the_next_one_runs(work):
    dispatcher = Dispatcher()

    async def fail():
        raise ValueError("x")

    with pytest.raises(ValueError):
        await dispatcher.submit("doc", Plain(fail))
    b = work("b")
    b.finish.set()
    assert await dispatcher.submit("doc", b) == "b"


async def test_warming_gives_way_to_requests_and_to_newer_warming(work, log):
    dispatcher = Dispatcher()
    dispatcher.warm("one", work("warm 1").run)
    await turns()
    dispatcher.warm("two", work("warm 2").run)
    await turns()
    dispatcher.submit("two", work("a"))
    await turns()
    dispatcher.warm("two", work("warm 3").run)
    await turns()
    assert log == ["warm 1 starts", "warm 1 stops", "warm 2 starts", "warm 2 stops", "a starts"]
    await dispatcher.close()


async def test_close_waits_until_everything_has_stopped(work, log):
    dispatcher = Dispatcher()
    answers = [dispatcher.submit(f"doc {n}", work(str(n))) for n in range(3)]
    await turns()
    await dispatcher.close()
    assert [answer.result() for answer in answers] == [None] * 3
    assert sorted(log) == sorted([f"{n} {what}" for n in range(3) for what in ("starts", "stops")])


KINDS = ["submit", "submit follower", "cancel", "finish", "drop", "turn"]
steps = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2)), max_size=30)


@settings(deadline=None, max_examples=60)
@given(steps=steps)
def test_never_two_at_once_and_every_request_is_answered(steps):
    asyncio.run(_never_two_at_once(steps))


async def _never_two_at_once(steps):
    dispatcher = Dispatcher()
    running = [0, 0, 0]
    gates = []
    answers = [[], [], []]

    def make(document):
        gate = asyncio.Event()
        gates.append(gate)

        async def work():
            running[document] += 1
            assert running[document] == 1
            try:
                await gate.wait()
            finally:
                try:
                    await asyncio.sleep(0)  # an engine takes a moment to let go
                finally:
                    running[document] -= 1
            return "done"

        return work

    for step, document in steps:
        if step.startswith("submit"):
            work = Plain(make(document), follows=step == "submit follower")
            answers[document].append(dispatcher.submit(str(document), work))
        elif step == "cancel" and answers[document]:
            answers[document][-1].cancel()
        elif step == "finish" and gates:
            gates[-1].set()
        elif step == "drop":
            dispatcher.drop(str(document))
        else:
            await asyncio.sleep(0)
        # Only the newest request of a document may still be open.
        assert all(answer.done() for document_answers in answers for answer in document_answers[:-1])
    await dispatcher.close()
    assert all(answer.done() for document_answers in answers for answer in document_answers)
    assert running == [0, 0, 0]
