"""The engine thread's life: what happens when it is closed or fails at an awkward moment."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.errors import EngineUnavailable
from engine.generation import runner
from engine.generation.disk_tier import DiskTier
from engine.generation.sequence import Sequence
from engine.generation.thread import EngineThread, LoadedModel
from engine.types import Priority

PATIENCE = 20.0


def request(fakes, prompt=(1, 2, 3)):
    events = []
    ended = threading.Event()

    def emit(event):
        events.append(event)
        if isinstance(event, Exception) or event.finish is not None:
            ended.set()

    return Sequence(tuple(prompt), 4, Priority.COMPLETION, "", emit, fakes.Output()), events, ended


@pytest.fixture
def started(fakes):
    """A running engine thread and its backend."""
    backend = fakes.Backend()
    thread = EngineThread(lambda: LoadedModel(backend, prompting=None))
    assert thread.loaded.wait(PATIENCE)
    yield thread, backend
    thread.close()


def test_a_submitted_request_runs_to_its_end(started, fakes):
    thread, _ = started
    sequence, events, ended = request(fakes)
    thread.submit(sequence)
    assert ended.wait(PATIENCE)
    assert sequence.tokens[3:] == fakes.continuation([1, 2, 3], 4)
    assert events[-1].finish is not None


def test_closing_stops_a_load_that_can_be_stopped():
    loading, stopped = threading.Event(), threading.Event()

    def load():
        loading.set()
        assert stopped.wait(PATIENCE)
        raise InterruptedError

    thread = EngineThread(load, stop_loading=stopped.set)
    assert loading.wait(PATIENCE)
    thread.close()
    assert thread.loaded.is_set()
    with pytest.raises(EngineUnavailable, match="shut down"):
        thread.model()


def test_closing_while_the_model_loads_waits_for_it_and_frees_it(fakes):
    backend = fakes.Backend()
    loading, go_on = threading.Event(), threading.Event()

    def load():
        loading.set()
        assert go_on.wait(PATIENCE)
        return LoadedModel(backend, prompting=None)

    thread = EngineThread(load)
    assert loading.wait(PATIENCE)
    closer = threading.Thread(target=thread.close)
    closer.start()
    go_on.set()
    closer.join(PATIENCE)
    assert not closer.is_alive()
    assert backend.closed
    with pytest.raises(EngineUnavailable, match="shut down"):
        thread.state()


def test_closing_in_the_self_test_interrupts_it(fakes):
    testing, go_on = threading.Event(), threading.Event()

    def inside():
        testing.set()
        assert go_on.wait(PATIENCE)

    backend = fakes.Backend(inside=inside)
    cancelled = threading.Event()
    cancel = backend.cancel
    backend.cancel = lambda: (cancel(), cancelled.set())
    thread = EngineThread(lambda: LoadedModel(backend, prompting=None))
    assert testing.wait(PATIENCE)
    closer = threading.Thread(target=thread.close)
    closer.start()
    assert cancelled.wait(PATIENCE)
    go_on.set()
    closer.join(PATIENCE)
    assert not closer.is_alive()
    assert backend.calls == []
    assert backend.sequences == {}


def test_requests_that_had_not_begun_when_it_failed_are_told(started, fakes):
    thread, backend = started
    inside, go_on = threading.Event(), threading.Event()

    def crash():
        inside.set()
        assert go_on.wait(PATIENCE)
        raise OverflowError("too much")

    backend.inside = crash
    first, first_events, _ = request(fakes)
    thread.submit(first)
    assert inside.wait(PATIENCE)
    second, second_events, ended = request(fakes)
    thread.submit(second)
    go_on.set()
    assert ended.wait(PATIENCE)
    for events in (first_events, second_events):
        (error,) = events
        assert isinstance(error, EngineUnavailable)
        assert "OverflowError: too much" in error.what
    assert thread.state() == "failed"
    with pytest.raises(EngineUnavailable, match="OverflowError"):
        thread.submit(second)


def test_what_is_warm_is_saved_when_it_is_closed_and_comes_back(fakes, tmp_path):
    def start():
        backend = fakes.Backend(context_tokens=256)
        disk = DiskTier(backend, lambda: "a" * 64, lambda: tmp_path / "kv", 1 << 20)
        opened = threading.Event()
        disk.wake = opened.set
        while disk.metrics().state == "opening":
            opened.wait(0.1)
        thread = EngineThread(lambda: LoadedModel(backend, prompting=None, disk=disk))
        assert thread.loaded.wait(PATIENCE)
        return thread

    prompt = [1 + n % 50 for n in range(100)]
    cached = []
    for _ in range(2):
        thread = start()
        sequence, events, ended = request(fakes, prompt)
        thread.submit(sequence)
        assert ended.wait(PATIENCE)
        assert sequence.tokens[100:] == fakes.continuation(prompt, 4)
        cached.append(events[-1].timing.cached_tokens)
        thread.close()
    assert cached == [0, 96]
    assert thread.metrics().disk_tokens == 96


def test_what_is_warm_is_saved_when_nothing_has_come_for_a_while(fakes, tmp_path, monkeypatch):
    """So that even a killed engine starts warm."""
    monkeypatch.setattr(runner, "SAVE_AFTER_SECONDS", 0.01)
    backend = fakes.Backend(context_tokens=256)
    disk = DiskTier(backend, lambda: "a" * 64, lambda: tmp_path / "kv", 1 << 20)
    thread = EngineThread(lambda: LoadedModel(backend, prompting=None, disk=disk))
    try:
        assert thread.loaded.wait(PATIENCE)
        saved = threading.Event()
        wake = disk.wake
        disk.wake = lambda: (wake(), saved.set() if disk.metrics().writes == 6 else None)
        sequence, _, ended = request(fakes, [1 + n % 50 for n in range(100)])
        thread.submit(sequence)
        assert ended.wait(PATIENCE)
        assert saved.wait(PATIENCE)
        assert backend.owners == {thread._thread.ident}, "pages are copied on the engine thread alone"
        assert thread.metrics().disk.writes == 6
    finally:
        thread.close()


def test_metrics_are_zeros_until_there_is_a_model_and_then_count(started, fakes):
    thread, backend = started
    sequence, _, ended = request(fakes)
    thread.submit(sequence)
    assert ended.wait(PATIENCE)
    thread.close()
    metrics = thread.metrics()
    assert (metrics.lookups, metrics.hits, metrics.prefilled_tokens) == (1, 0, 3)
    assert metrics.generated_tokens == sequence.generated
    assert metrics.cache_entries == 1
    assert metrics.kv_tokens == backend.kv_tokens
    assert metrics.waiting == {"completion": 0, "chat": 0, "background": 0}
    assert metrics.disk.state == "off"

    def refuse():
        raise EngineUnavailable("No model.")

    failed = EngineThread(refuse)
    assert failed.loaded.wait(PATIENCE)
    assert failed.metrics().kv_tokens == 0
    failed.close()


def test_a_page_that_nobody_holds_is_told_when_the_engine_is_closed(fakes, caplog):
    caplog.set_level("INFO", "engine.generation.thread")
    for lost in (False, True):
        backend = fakes.Backend(kv_tokens=64, page=4)
        thread = EngineThread(lambda backend=backend: LoadedModel(backend, prompting=None))
        assert thread.loaded.wait(PATIENCE)
        sequence, _, ended = request(fakes)
        thread.submit(sequence)
        assert ended.wait(PATIENCE)
        backend.references[-1] += lost
        thread.close()
    assert [record.getMessage() for record in caplog.records] == [
        "all KV pages were given back",
        "KV pages of 4 tokens were not given back",
    ]


def test_issue_677_many_clients_that_come_and_go_at_any_time_leave_nothing_behind(fakes, tmp_path):
    """Each answer is a solo run's, each request ends once, every page is accounted for."""
    backend = fakes.Backend(context_tokens=256, kv_tokens=512)
    disk = DiskTier(backend, lambda: "a" * 64, lambda: tmp_path / "kv", 1 << 16)
    thread = EngineThread(lambda: LoadedModel(backend, prompting=None, disk=disk))
    assert thread.loaded.wait(PATIENCE)

    def client(number):
        rng = random.Random(number)
        for turn in range(25):
            prompt = [1 + rng.randrange(3)] * rng.randrange(1, 200) + [1 + turn % 60] * rng.randrange(3)
            sequence, events, ended = request(fakes, prompt)
            sequence.priority = rng.choice(list(Priority))
            sequence.session = rng.choice(["", "a", str(number)])
            thread.submit(sequence)
            if rng.random() < 0.3:
                ended.wait(rng.random() * 0.01)
                thread.cancel(sequence)
            assert ended.wait(PATIENCE)
            answer = sequence.tokens[len(prompt) :]
            assert answer == fakes.continuation(prompt, 4)[: len(answer)]
            assert sum(event.finish is not None for event in events) == 1

    with ThreadPoolExecutor(8) as clients:
        list(clients.map(client, range(8)))
    thread.close()
    assert thread.metrics().evictions > 0
    assert thread.metrics().disk.write_failures == 0
    assert backend.sequences == {}
    assert backend.free_tokens == backend.kv_tokens
