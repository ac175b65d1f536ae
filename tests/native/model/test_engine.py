"""What the engine refuses, and that a refusal changes nothing."""

import threading

import numpy as np
import pytest

from engine import _native


@pytest.fixture
def run(tiny_model, runner):
    return runner(tiny_model("qwen2", "Q4_0"), kv_tokens=256)


def state(engine, seq):
    return engine.length(seq), engine.free_tokens


def test_a_full_cache_leaves_the_sequence_as_it_was(run, tokens):
    engine = run.engine
    seq, other = engine.new_sequence(), engine.new_sequence()
    run.append(seq, tokens)  # 3 of 4 pages
    before = state(engine, seq)
    with pytest.raises(_native.OutOfPages, match="4 pages"):
        run.append(other, tokens[:100])
    assert state(engine, seq) == before
    assert engine.length(other) == 0
    assert isinstance(_native.OutOfPages("x"), MemoryError)
    expected = run.append(seq, tokens[:5])
    engine.free_sequence(other)
    engine.truncate(seq, 150)
    assert np.array_equal(run.append(seq, tokens[:5]), expected)
    engine.free_sequence(seq)


@pytest.mark.parametrize(
    ("seqs", "tokens", "message"),
    [
        ([0], [-1], "token -1 is not in the vocabulary"),
        ([0], [10**6], "token 1000000 is not in the vocabulary"),
        ([77], [1], "no sequence 77"),
        ([-1], [1], "no sequence -1"),
        ([0, 1, 0], [1, 2, 3], "not adjacent"),
        ([0, 0], [1], "differ in length"),
    ],
)
def test_wrong_rows_are_refused(run, seqs, tokens, message):
    engine = run.engine
    made = [engine.new_sequence(), engine.new_sequence()]
    assert made == [0, 1]
    with pytest.raises(ValueError, match=message):
        engine.forward(np.array(seqs, np.int32), np.array(tokens, np.int32), np.ones(len(tokens), bool))
    assert [engine.length(s) for s in made] == [0, 0]
    for seq in made:
        engine.free_sequence(seq)


def test_no_rows_give_no_logits(run):
    empty = np.zeros(0, np.int32)
    assert run.engine.forward(empty, empty, np.zeros(0, bool)).shape == (0, run.model.n_vocab)


def test_rows_without_logits(run, tokens):
    engine = run.engine
    seq = engine.new_sequence()
    want = np.zeros(10, bool)
    assert engine.forward(np.full(10, seq, np.int32), tokens[:10], want).shape == (0, run.model.n_vocab)
    assert engine.length(seq) == 10
    engine.free_sequence(seq)


def test_sequences_that_are_gone_are_refused(run):
    engine = run.engine
    seq = engine.new_sequence()
    engine.free_sequence(seq)
    for call in (engine.free_sequence, engine.length):
        with pytest.raises(ValueError, match="no sequence"):
            call(seq)
    live = engine.new_sequence()
    with pytest.raises(ValueError, match="cannot truncate"):
        engine.truncate(live, 1)
    with pytest.raises(ValueError, match="cannot fork"):
        engine.fork_sequence(live, 1)
    engine.free_sequence(live)


def test_cancel_stops_a_pass_and_the_sequence_is_as_before(tiny_model, runner):
    # Enough layers and rows that a pass outlasts the other thread's call, which is repeated until it lands.
    run = runner(tiny_model("qwen2", "F32", layers=24), kv_tokens=4096, isa="scalar")
    engine = run.engine
    seq = engine.new_sequence()
    tokens = np.random.default_rng(0).integers(0, 300, 1000).astype(np.int32)
    done = threading.Event()

    def keep_cancelling():
        while not done.wait(0.001):
            engine.cancel()

    thread = threading.Thread(target=keep_cancelling)
    thread.start()
    try:
        with pytest.raises(InterruptedError):
            run.append(seq, tokens)
    finally:
        done.set()
        thread.join()
    assert engine.length(seq) == 0
    assert engine.free_tokens == 4096
    engine.free_sequence(seq)


def test_a_second_thread_is_refused(tiny_model, runner):
    run = runner(tiny_model("qwen2", "F32", layers=24), kv_tokens=4096, isa="scalar")
    engine = run.engine
    seq = engine.new_sequence()
    tokens = np.random.default_rng(0).integers(0, 300, 1000).astype(np.int32)
    result: list[object] = []

    def work():
        try:
            result.append(run.append(seq, tokens))
        except InterruptedError as error:
            result.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    refused = False
    while thread.is_alive() and not refused:
        try:
            engine.free_tokens  # noqa: B018
        except RuntimeError as error:
            refused = "in use by another thread" in str(error)
    while thread.is_alive():
        engine.cancel()
        thread.join(0.01)
    assert refused
    assert len(result) == 1
    engine.free_sequence(seq)


def test_a_cancel_while_nothing_runs_stops_nothing(run, tokens):
    run.engine.cancel()
    assert run.logits(tokens[:3]).shape[0] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_tokens": 0, "threads": 1}, "at least one token"),
        ({"kv_tokens": 2**62, "threads": 1}, "does not fit any memory"),
        ({"kv_tokens": 64, "threads": 0}, "1 to 1024 threads, not 0"),
        ({"kv_tokens": 64, "threads": 1, "kv_format": "q9"}, "'q9' is not one of f16, f32"),
    ],
)
def test_wrong_options_are_refused(run, options, message):
    with pytest.raises(ValueError, match=message):
        _native.Engine(run.model, **options)


def test_an_instruction_set_that_is_not_here_is_refused(tiny_model):
    file = _native.GgufFile(str(tiny_model("qwen2")))
    with pytest.raises(ValueError, match=r"'z80' cannot run here; this machine has: .*scalar"):
        _native.Model(file, isa="z80")
