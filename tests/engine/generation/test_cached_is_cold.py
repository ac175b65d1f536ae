"""Issue 311: an answer from any mixture of cache, disk and pre-emption is the cold one, bit for bit.

A tiny real model on the native engine, a pool of a few pages, and the real disk tier.
"""

import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.backends import native
from engine.errors import HearthError
from engine.generation.disk_tier import DiskTier
from engine.generation.runner import Runner
from engine.generation.sequence import Drawn, Sequence
from engine.generation.speed import Speed
from engine.types import FinishReason, Priority

PATIENCE = 20.0
CONTEXT = 640


class Recorded:
    """Greedy; keeps every row of logits."""

    def __init__(self):
        self.rows = []

    def draw(self, logits, history):
        self.rows.append(logits.tobytes())
        return Drawn(int(np.argmax(logits)), "x", 0.0)

    def flush(self):
        return ""


@pytest.fixture(scope="module")
def gguf(tiny_model):
    return native.open_gguf(tiny_model("qwen2", "Q4_0", layers=1))


@pytest.fixture(scope="module")
def cold(gguf):
    """cold(prompt, n): the logits of n greedy steps, each request alone in an empty engine."""
    backend = native.NativeBackend(gguf, threads=1, context_tokens=CONTEXT)
    known = {}

    def answer(prompt, n):
        rows = known.setdefault(prompt, [])
        if len(rows) < n:
            rows.clear()
            seq, new = backend.new_sequence(), list(prompt)
            while len(rows) < n:
                want = np.array([False] * (len(new) - 1) + [True])
                logits = backend.forward(np.full(len(new), seq, np.int32), np.array(new, np.int32), want)[0]
                rows.append(logits.tobytes())
                new = [int(np.argmax(logits))]
            backend.free_sequence(seq)
        return rows[:n]

    return answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Kept from example to example, as from start to start."""
    return tmp_path_factory.mktemp("kv") / "kv"


requests = st.fixed_dictionaries(
    {
        "family": st.integers(0, 2),
        "length": st.sampled_from([30, 255, 256, 257, 300, 400, 512, 520, 600]),
        "own": st.integers(0, 30),
        "max_tokens": st.integers(1, 5),
        "priority": st.sampled_from(Priority),
        "session": st.sampled_from(["", "a"]),
        "steps": st.integers(0, 12),
        "cancel": st.sampled_from([None, None, None, 0, 2, 5]),
    }
)


def prompt_of(request):
    shared = np.random.default_rng(request["family"]).integers(0, 300, request["length"])
    own = np.random.default_rng(100 + request["own"]).integers(0, 300, request["own"])
    return tuple(int(token) for token in [*shared, *own])


@given(arrivals=st.lists(requests, min_size=2, max_size=7))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_the_bits_are_those_of_a_cold_run(arrivals, gguf, cold, folder, monkeypatch):
    monkeypatch.setattr(native, "KV_CONTEXTS", 1)  # a pool of 10 pages
    backend = native.NativeBackend(gguf, threads=1, context_tokens=CONTEXT)
    assert backend.kv_tokens == CONTEXT
    disk = DiskTier(backend.kv_pages, lambda: "0" * 64, lambda: folder, 1 << 30)
    changed = threading.Event()
    disk.wake = changed.set
    runner = Runner(backend, Speed(), disk=disk)
    events, live = {}, []

    def step():
        changed.clear()
        runner.step()
        if runner.busy and runner.patience():
            changed.wait(runner.patience())
        for sequence, when in list(live):
            if sequence.generated >= when:
                runner.cancel(sequence)
                live.remove((sequence, when))

    for request in arrivals:
        output = Recorded()
        sequence = Sequence(
            prompt_of(request), request["max_tokens"], request["priority"], request["session"], None, output
        )
        events[sequence] = []
        sequence.emit = events[sequence].append
        runner.submit(sequence)
        if request["cancel"] is not None:
            live.append((sequence, request["cancel"]))
        for _ in range(request["steps"]):
            step()
    for _ in range(3000):
        if not runner.busy:
            break
        step()
    assert not runner.busy
    for sequence, seen in events.items():
        assert not any(isinstance(event, HearthError) for event in seen)
        assert sum(event.finish is not None for event in seen) == 1
        rows = sequence.output.rows
        assert rows == cold(sequence.prompt, len(rows))
        assert len(rows) == sequence.max_tokens or seen[-1].finish is FinishReason.CANCELLED
    runner.save(PATIENCE)
    assert disk.metrics().write_failures == disk.metrics().read_failures == 0
    runner._cache.clear()
    assert backend.free_tokens == backend.kv_tokens


@pytest.mark.parametrize("seed", [1, 2])
def test_after_a_restart_the_prefix_comes_from_the_disk_with_the_same_bits(tiny_model, tmp_path, seed):
    """Issue 361: the second model has the first one's shape and name, and finds nothing of it."""
    prompt = prompt_of({"family": 9, "length": 600, "own": 5})
    rows, restored = [], []
    for model_seed in (1, seed, seed):
        path = tiny_model("qwen2", "Q4_0", layers=1, seed=model_seed)
        backend = native.NativeBackend(native.open_gguf(path), threads=1, context_tokens=1024)
        content = str(model_seed) * 64
        disk = DiskTier(backend.kv_pages, lambda content=content: content, lambda: tmp_path / "kv", 1 << 30)
        changed = threading.Event()
        disk.wake = changed.set
        while disk.metrics().state == "opening":
            changed.wait(0.05)
        runner = Runner(backend, Speed(), disk=disk)
        output, ended = Recorded(), []
        sequence = Sequence(prompt, 4, Priority.CHAT, "", ended.append, output)
        runner.submit(sequence)
        while runner.busy:
            changed.clear()
            runner.step()
            if runner.busy and runner.patience():
                changed.wait(runner.patience())
        runner.save(PATIENCE)
        rows.append(output.rows)
        restored.append(sequence.cached)
        assert runner.metrics.disk_tokens == sequence.cached
    assert restored == ([0, 512, 512] if seed == 1 else [0, 0, 512])
    assert rows[1] == rows[2]
    assert (rows[0] == rows[1]) == (seed == 1)
