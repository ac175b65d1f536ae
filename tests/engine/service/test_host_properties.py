"""Any order of requests, cancellations, failures and pauses: one model in memory, and everything ends."""

import asyncio
from contextlib import suppress

from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.errors import EngineUnavailable, HearthError
from engine.generation.metrics import EngineMetrics
from engine.service.host import ModelHost
from engine.types import EngineStatus, FinishReason, InfillRequest, TextDelta

NUMBER = st.integers(0, 9)
ASK = st.tuples(st.just("ask"), st.sampled_from(["one", "two", "one", "two", "bad", ""]))
TURN = st.tuples(st.just("turn"), st.sampled_from([1, 1, 2, 20]))
STEPS = st.lists(
    st.one_of(
        ASK,
        ASK,
        ASK,
        st.tuples(st.just("cancel"), st.sets(NUMBER, min_size=1, max_size=4)),
        st.tuples(st.sampled_from(["finish", "finish", "fail"]), NUMBER),
        TURN,
        TURN,
        st.tuples(st.just("threads"), st.integers(1, 3)),
    ),
    max_size=30,
)


class World:
    def __init__(self):
        self.in_memory = 0
        self.most = 0
        self.wrongs = []


class Engine:
    def __init__(self, world, model):
        self.world, self.model, self.failed = world, model, False
        self.inside = 0
        world.in_memory += 1
        world.most = max(world.most, world.in_memory)

    async def infill(self, request):
        end = ENDS[request.session]
        self.inside += 1
        try:
            yield TextDelta(self.model)
            if await end == "fail":
                self.failed = True
                raise EngineUnavailable("The engine stopped.")
            yield TextDelta("", finish=FinishReason.STOP)
        finally:
            self.inside -= 1

    async def status(self):
        return EngineStatus("failed" if self.failed else "ready", self.model)

    def metrics(self):
        return EngineMetrics(running=1)

    async def wait_loaded(self):
        await asyncio.sleep(0)
        if self.model == "bad":
            raise EngineUnavailable("It does not load.")

    async def close(self):
        if self.inside:
            self.world.wrongs.append(f"{self.model} was freed while {self.inside} requests ran")
        await asyncio.sleep(0)
        self.world.in_memory -= 1


ENDS: dict[str, asyncio.Future] = {}


async def play(steps):
    world = World()

    async def open_model(name, threads):
        await asyncio.sleep(0)
        return Engine(world, name)

    async def known(used):
        return ()

    async def ask(number, model):
        names = set()
        async for delta in host.infill(InfillRequest("a", "b", session=str(number)), model):
            names.add(delta.text)
        assert not model or names - {""} == {model}

    host = ModelHost(open_model, known, default="one", idle_seconds=0)
    ENDS.clear()
    tasks = []
    background = set()
    for kind, value in steps:
        if kind == "ask":
            ENDS[str(len(tasks))] = asyncio.get_running_loop().create_future()
            tasks.append(asyncio.create_task(ask(len(tasks), value)))
        elif kind == "cancel":
            for number in value:
                if number < len(tasks):
                    tasks[number].cancel()
        elif kind in ("finish", "fail") and value < len(tasks) and not ENDS[str(value)].done():
            ENDS[str(value)].set_result(kind)
        elif kind == "threads":
            background.add(asyncio.create_task(host.load("one", value)))
        elif kind == "turn":
            for _ in range(value):
                await asyncio.sleep(0)
        assert world.in_memory <= 1
    for end in ENDS.values():
        if not end.done():
            end.set_result("finish")
    async with asyncio.timeout(60):
        for task in (*tasks, *background):
            with suppress(asyncio.CancelledError, HearthError):
                await task
        counts = host.counts
        assert (counts.running, counts.waiting) == (0, 0)
        await host.close()
    assert world.wrongs == []
    assert world.most <= 1
    assert world.in_memory == 0


@settings(max_examples=300, deadline=None)
@given(STEPS)
@example(
    [("ask", "bad"), ("turn", 1), ("turn", 1), ("turn", 1), ("cancel", {0}), ("turn", 1)]
)  # closed while freeing
def test_one_model_in_memory_and_everything_ends(steps):
    asyncio.run(play(steps))
