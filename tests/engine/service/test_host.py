"""The model host over scripted engines: one model in memory, turns in order, failures told to each."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from engine.errors import DeadlineExceeded, EngineBusy, EngineUnavailable, ModelFileError, RequestError
from engine.generation.embedding import Embeddings
from engine.generation.metrics import EngineMetrics
from engine.service.host import RETRY_SECONDS, ModelHost
from engine.service.http.problems import BadField
from engine.service.served import ServedModel
from engine.types import ChatMessage, ChatRequest, EngineStatus, FinishReason, InfillRequest, TextDelta

REQUEST = InfillRequest("a", "b")


class Engine:
    """Streams the name of its model, as far as `go` lets it."""

    def __init__(self, machine, model):
        self.machine, self.model = machine, model
        self.go = asyncio.Event()
        self.go.set()
        self.failed = False
        self.failure = EngineUnavailable("The engine stopped.")
        self.refusal = None  # raised by an engine that goes on

    async def infill(self, request):
        self.machine.asked.append(self.model)
        self.machine.times_left.append(request.timeout_s)
        try:
            yield TextDelta(self.model)
            await self.go.wait()
            if self.failed:
                raise self.failure
            if self.refusal is not None:
                raise self.refusal
            yield TextDelta("", finish=FinishReason.STOP)
        finally:
            self.machine.ended.append(self.model)

    async def warm(self, request):
        self.machine.asked.append(f"warm {self.model}")
        self.machine.times_left.append(request.timeout_s)

    async def tokenize(self, text, *, special):
        return [len(text), special]

    async def detokenize(self, ids):
        return str(ids)

    async def count_tokens(self, request):
        if self.failed:
            raise EngineUnavailable("The engine stopped.")
        return len(request.messages)

    async def embed(self, texts):
        try:
            await self.go.wait()
            return Embeddings([], len(texts))
        finally:
            self.machine.ended.append(f"embed {self.model}")

    async def status(self):
        return EngineStatus("failed" if self.failed else "ready", self.model)

    def metrics(self):
        return EngineMetrics(running=1)

    async def wait_loaded(self):
        await self.machine.gate.wait()
        if self.model in self.machine.broken:
            raise self.machine.broken[self.model]

    async def close(self):
        self.machine.in_memory.discard(self)
        self.machine.freed.set()


class Machine:
    """Its memory, and every model that was ever opened."""

    def __init__(self):
        self.in_memory, self.opened, self.most = set(), [], 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.freed = asyncio.Event()
        self.asked, self.ended, self.broken = [], [], {}
        self.now = 0.0
        self.threads, self.times_left = [], []

    async def known(self, used):
        return (ServedModel(used),)

    async def open(self, model, threads):
        self.threads.append(threads)
        if model == "missing":
            raise ModelFileError("There is no such model.", action="Run it.")
        if model == "fault":
            raise ZeroDivisionError("secret")
        engine = Engine(self, model)
        self.in_memory.add(engine)
        self.opened.append(engine)
        self.most = max(self.most, len(self.in_memory))
        return engine


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
async def make_host(machine):
    hosts = []

    def make(idle_seconds=0.0, **options):
        hosts.append(
            ModelHost(
                machine.open,
                machine.known,
                default="one",
                idle_seconds=idle_seconds,
                clock=lambda: machine.now,
                **options,
            )
        )
        return hosts[-1]

    yield make
    for host in hosts:
        await host.close()
    assert not machine.in_memory


async def text(stream):
    async with aclosing(stream):
        return "".join([delta.text async for delta in stream])


async def started(stream):
    """The stream after its first piece."""
    return (await anext(stream)).text


async def settle():
    """Let every task that can run do so until it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_model_is_loaded_by_the_first_request(machine, make_host):
    host = make_host()
    assert (await host.status()).state == "unloaded"
    assert host.metrics() is None
    assert machine.opened == []
    assert await text(host.infill(REQUEST)) == "one"
    assert (await host.status()).state == "ready"
    assert host.metrics() == EngineMetrics(running=1)
    await host.warm(REQUEST)
    assert [engine.model for engine in machine.opened] == ["one"]
    assert host.counts.requests == 2


async def test_a_request_waits_for_the_load_and_the_status_says_so(machine, make_host):
    machine.gate.clear()
    host = make_host()
    answer = asyncio.create_task(text(host.infill(REQUEST)))
    await settle()
    status = await host.status()
    assert (status.state, status.model) == ("loading", "one")
    assert host.counts.waiting == 1
    machine.gate.set()
    assert await answer == "one"


async def test_many_first_requests_load_it_once(machine, make_host):
    host = make_host()
    assert await asyncio.gather(*(text(host.infill(REQUEST)) for _ in range(20))) == ["one"] * 20
    assert len(machine.opened) == 1


async def test_another_model_waits_for_what_runs_and_the_old_one_is_freed_first(machine, make_host):
    host = make_host()
    first = host.infill(REQUEST)
    assert await started(first) == "one"
    other = asyncio.create_task(text(host.infill(REQUEST, "two")))
    later = asyncio.create_task(text(host.infill(REQUEST, "one")))
    await settle()
    assert [engine.model for engine in machine.opened] == ["one"]
    assert host.counts.waiting == 2
    assert [delta.finish async for delta in first] == [FinishReason.STOP]
    assert (await other, await later) == ("two", "one")
    assert [engine.model for engine in machine.opened] == ["one", "two", "one"]
    assert machine.most == 1


async def test_without_a_name_the_model_in_memory_answers(machine, make_host):
    host = make_host()
    assert await text(host.infill(REQUEST, "two")) == "two"
    assert await text(host.infill(REQUEST)) == "two"


async def test_closing_a_stream_reaches_the_engine_and_frees_the_turn(machine, make_host):
    host = make_host()
    stream = host.infill(REQUEST)
    await started(stream)
    machine.opened[0].go.clear()
    await stream.aclose()
    assert machine.ended == ["one"]
    assert await text(host.infill(REQUEST, "two")) == "two"


async def test_a_waiting_request_that_is_cancelled_holds_nobody_up(machine, make_host):
    host = make_host()
    first = host.infill(REQUEST)
    await started(first)
    other = asyncio.create_task(text(host.infill(REQUEST, "two")))
    later = asyncio.create_task(text(host.infill(REQUEST, "one")))
    await settle()
    other.cancel()
    assert await later == "one"
    await first.aclose()
    assert [engine.model for engine in machine.opened] == ["one"]
    assert host.counts.running == host.counts.waiting == 0


async def test_a_request_cancelled_in_the_moment_it_is_granted_gives_its_turn_back(machine, make_host):
    host = make_host()
    await host.load()
    granted = asyncio.create_task(text(host.infill(REQUEST)))
    await asyncio.sleep(0)  # it was granted, and has not run since
    granted.cancel()
    await asyncio.gather(granted, return_exceptions=True)
    assert host.counts.running == 0
    assert await text(host.infill(REQUEST, "two")) == "two"


async def test_two_waiting_requests_cancelled_at_once_hold_nobody_up(machine, make_host):
    host = make_host()
    first = host.infill(REQUEST)
    await started(first)
    names = ("two", "one", "one")
    other, again, later = (asyncio.create_task(text(host.infill(REQUEST, name))) for name in names)
    await settle()
    other.cancel()
    again.cancel()  # when the first of the two lets go, this one's turn has come, and nobody waits for it
    assert await later == "one"
    ended = await asyncio.gather(other, again, return_exceptions=True)
    assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
    await first.aclose()
    assert host.counts.running == host.counts.waiting == 0


async def test_a_failed_load_is_told_to_each_and_the_next_model_works(machine, make_host):
    machine.broken["bad"] = EngineUnavailable("bad does not load.", meaning="m", action="a")
    host = make_host()
    answers = await asyncio.gather(
        *(text(host.infill(REQUEST, "bad")) for _ in range(3)),
        text(host.infill(REQUEST, "one")),
        return_exceptions=True,
    )
    *failures, last = answers
    assert all(isinstance(one, EngineUnavailable) and one.what == "bad does not load." for one in failures)
    assert len({id(one) for one in failures}) == 3
    assert (failures[0].meaning, failures[0].action) == ("m", "a")
    assert last == "one"
    assert machine.most == 1


async def test_a_failed_load_is_tried_again_after_a_while_only(machine, make_host):
    machine.broken["bad"] = EngineUnavailable("bad does not load.")
    host = make_host()
    for _ in range(5):
        with pytest.raises(EngineUnavailable):
            await host.load("bad")
    assert len(machine.opened) == 1
    assert (await host.status()).state == "failed"
    machine.broken.clear()
    machine.now += RETRY_SECONDS
    await host.load("bad")
    assert len(machine.opened) == 2
    assert (await host.status()).state == "ready"


@pytest.mark.parametrize(
    "failure",
    [
        ModelFileError("It is truncated.", meaning="m", action="a"),
        EngineBusy("Full.", meaning="m", action="a", retry_after=7.5),
        BadField("model", "It is odd.", action="a"),
    ],
    ids=lambda failure: type(failure).__name__,
)
async def test_a_failure_is_told_alike_every_time_and_never_as_the_same_exception(
    machine, make_host, failure
):
    machine.broken["bad"] = failure
    host = make_host()
    told = []
    for _ in range(3):
        with pytest.raises(type(failure)) as caught:
            await host.load("bad")
        told.append(caught.value)
    assert [vars(error) | {"words": str(error)} for error in told] == [
        vars(failure) | {"words": str(failure)}
    ] * 3
    assert len({id(error) for error in told}) == 3
    assert len(machine.opened) == 1


async def test_a_request_waits_for_its_model_no_longer_than_it_may(machine, make_host):
    machine.gate.clear()
    host = make_host()
    with pytest.raises(DeadlineExceeded, match="not in memory within"):
        await text(host.infill(replace(REQUEST, timeout_s=0.001)))
    with pytest.raises(DeadlineExceeded):
        await host.warm(replace(REQUEST, timeout_s=0.001))
    assert (host.counts.waiting, host.counts.running) == (0, 0)
    machine.gate.set()
    assert await text(host.infill(REQUEST)) == "one"
    assert machine.asked == ["one"]


async def test_the_engine_gets_the_time_that_is_left(machine, make_host):
    machine.gate.clear()
    host = make_host()
    asked = asyncio.create_task(text(host.infill(replace(REQUEST, timeout_s=600.0))))
    warmed = asyncio.create_task(host.warm(replace(REQUEST, timeout_s=500.0)))
    await settle()
    machine.now += 100.0
    machine.gate.set()
    await asyncio.gather(asked, warmed)
    assert machine.times_left == [500.0, 400.0]


async def test_only_so_many_wait_for_a_model(machine, make_host):
    machine.gate.clear()
    host = make_host(max_waiting=2)
    waiting = [asyncio.create_task(text(host.infill(REQUEST, name))) for name in ("one", "two")]
    await settle()
    with pytest.raises(EngineBusy) as caught:
        await text(host.infill(REQUEST))
    assert caught.value.retry_after == RETRY_SECONDS
    machine.gate.set()
    assert [await task for task in waiting] == ["one", "two"]
    assert await text(host.infill(REQUEST)) == "two"


async def test_the_kind_of_the_error_is_kept(make_host):
    host = make_host()
    for _ in range(2):
        with pytest.raises(ModelFileError, match="no such model"):
            await host.load("missing")


async def test_a_fault_becomes_words_without_what_it_quoted(make_host):
    with pytest.raises(EngineUnavailable) as caught:
        await make_host().load("fault")
    assert "ZeroDivisionError" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", [EngineUnavailable, ModelFileError])
async def test_an_engine_that_fails_is_replaced_at_the_next_request(machine, make_host, kind):
    host = make_host()
    stream = host.infill(REQUEST)
    await started(stream)
    machine.opened[0].failed, machine.opened[0].failure = True, kind("It stopped.")
    with pytest.raises(kind):
        await anext(stream)
    assert await text(host.infill(REQUEST)) == "one"
    assert len(machine.opened) == 2
    assert machine.most == 1


async def test_an_idle_model_is_let_go_and_comes_back(machine, make_host):
    host = make_host(idle_seconds=0.001)
    assert await text(host.infill(REQUEST)) == "one"
    async with asyncio.timeout(30):
        await machine.freed.wait()
    await settle()
    assert (await host.status()).state == "unloaded"
    assert await text(host.infill(REQUEST)) == "one"
    assert len(machine.opened) == 2


async def test_another_number_of_threads_loads_it_anew_once(machine, make_host):
    host = make_host()
    for threads in (0, 3, 3, 0):
        await host.load("one", threads)
    assert machine.threads == [0, 3]
    await host.load("two")
    assert machine.threads == [0, 3, 3]


async def test_a_request_that_fails_meanwhile_does_not_undo_another_number_of_threads(machine, make_host):
    host = make_host()
    await host.load("one", 1)
    (engine,) = machine.opened
    stream = host.infill(REQUEST, "one")
    await anext(stream)
    loading = asyncio.create_task(host.load("one", 3))
    while not host.counts.waiting:
        await asyncio.sleep(0)
    engine.refusal = RequestError("The constraint could not be followed.")
    with pytest.raises(RequestError):
        async for _ in stream:
            pass
    await loading
    assert machine.threads == [1, 3]


async def test_a_running_request_keeps_the_model(machine, make_host, monkeypatch):
    host = make_host(idle_seconds=1000.0)
    armed = []
    monkeypatch.setattr(
        asyncio.get_running_loop(), "call_later", lambda *arguments: armed.append(arguments), raising=False
    )
    stream = host.infill(REQUEST)
    await started(stream)
    assert armed == []


async def test_text_without_generation(machine, make_host):
    host = make_host()
    assert await host.tokenize("abc", special=True, model="two") == [3, True]
    assert await host.detokenize((1, 2)) == "[1, 2]"
    chat = ChatRequest((ChatMessage("user", "hi"),))
    assert await host.count_tokens(chat) == 1
    assert [model.name for model in await host.models()] == ["two"]
    machine.opened[0].failed = True
    with pytest.raises(EngineUnavailable):
        await host.count_tokens(chat)
    assert await host.count_tokens(chat) == 1
    assert len(machine.opened) == 2


async def test_a_cancelled_call_for_embeddings_lets_the_next_model_in(machine, make_host):
    host = make_host()
    await host.load("one")
    machine.opened[0].go.clear()
    embedding = asyncio.create_task(host.embed(["a"], "one"))
    await asyncio.sleep(0)
    other = asyncio.create_task(host.embed(["b", "c"], "two"))
    embedding.cancel()
    assert (await other).tokens == 2
    assert machine.ended == ["embed one", "embed two"]


async def test_closing_ends_what_waits(machine, make_host):
    host = make_host()
    first = host.infill(REQUEST)
    await started(first)
    other = asyncio.create_task(text(host.infill(REQUEST, "two")))
    await settle()
    await host.close()
    with pytest.raises(EngineUnavailable, match="shutting down"):
        await other
    with pytest.raises(EngineUnavailable):
        await host.load()
    with pytest.raises(EngineUnavailable):
        await host.status()
    await first.aclose()


async def test_refusing_lets_what_runs_go_on(machine, make_host):
    host = make_host()
    first = host.infill(REQUEST)
    await started(first)
    other = asyncio.create_task(text(host.infill(REQUEST, "two")))
    await settle()
    host.refuse()
    with pytest.raises(EngineUnavailable, match="shutting down"):
        await other
    with pytest.raises(EngineUnavailable, match="shutting down"):
        await text(host.infill(REQUEST))
    assert [delta.finish async for delta in first] == [FinishReason.STOP]


async def test_closing_during_a_load_ends_it(machine, make_host):
    machine.gate.clear()
    host = make_host()
    waiting = asyncio.create_task(text(host.infill(REQUEST)))
    await settle()
    await host.close()
    with pytest.raises(EngineUnavailable):
        await waiting
    assert not machine.in_memory
