"""Copies of KV pages, out of an engine and into another: the same bits, and refusals that change nothing."""

import numpy as np
import pytest

from engine import _native

PAGE = 64


@pytest.fixture
def run(tiny_model, runner):
    return runner(tiny_model("qwen2", "Q4_0"), kv_tokens=512)


@pytest.fixture
def seq(run, tokens):
    """A sequence of two whole pages and a bit."""
    seq = run.engine.new_sequence()
    run.append(seq, tokens)
    yield seq
    run.engine.free_sequence(seq)


@pytest.mark.parametrize("kv_format", ["f16", "f32"])
def test_logits_after_pages_from_another_engine_are_the_same_bits(tiny_model, runner, tokens, kv_format):
    path = tiny_model("qwen3", "Q8_0")
    first, second = (runner(path, kv_format=kv_format, threads=threads, kv_tokens=512) for threads in (1, 2))
    expected = first.logits(tokens)
    source, to = first.engine.new_sequence(), second.engine.new_sequence()
    first.append(source, tokens)
    pages = np.concatenate([first.engine.read_pages(source, n, 1) for n in range(2)])
    second.engine.append_pages(to, pages)
    assert second.engine.length(to) == 2 * PAGE
    assert np.array_equal(second.append(to, tokens[2 * PAGE :]), expected[2 * PAGE :])
    first.engine.free_sequence(source)
    second.engine.free_sequence(to)


def test_a_page_depends_on_its_model_and_tokens_alone(tiny_model, runner, tokens):
    """Issue 361: a model of the same shape gives other bytes, so they must never be mixed up."""
    read = {}
    for name, seed, chunks in (("a", 1, (150,)), ("b", 1, (7, 60, 83)), ("c", 2, (150,))):
        run = runner(tiny_model("qwen2", "Q4_0", seed=seed), kv_tokens=512)
        seq = run.engine.new_sequence()
        for chunk in np.split(tokens, np.cumsum(chunks)[:-1]):
            run.append(seq, chunk)
        read[name] = run.engine.read_pages(seq, 0, 2)
        run.engine.free_sequence(seq)
    assert np.array_equal(read["a"], read["b"])
    assert not np.array_equal(read["a"], read["c"])


def test_appended_pages_are_the_sequences_own(run, seq, tokens):
    engine = run.engine
    copy = engine.new_sequence()
    pages = engine.read_pages(seq, 0, 2)
    assert pages.shape == (2, engine.page_bytes)
    assert pages.dtype == np.uint8
    free = engine.free_pages
    engine.append_pages(copy, pages)
    assert engine.free_pages == free - 2
    engine.truncate(copy, 10)
    run.append(copy, tokens[:60])
    assert np.array_equal(engine.read_pages(seq, 0, 2), pages)
    engine.free_sequence(copy)
    assert engine.free_pages == free


@pytest.mark.parametrize(
    ("first", "count"), [(0, 3), (2, 1), (3, 0), (-1, 1), (0, -1), (1, 2**62), (2**62, 1), (-(2**62), 2**62)]
)
def test_pages_that_a_sequence_does_not_have_whole_are_refused(run, seq, first, count):
    with pytest.raises(ValueError, match="whole pages"):
        run.engine.read_pages(seq, first, count)


def test_no_pages_are_no_trouble(run, seq):
    empty = run.engine.read_pages(seq, 2, 0)
    assert empty.shape == (0, run.engine.page_bytes)
    other = run.engine.new_sequence()
    run.engine.append_pages(other, empty)
    assert run.engine.length(other) == 0
    run.engine.free_sequence(other)


def test_what_cannot_be_appended_is_refused_and_changes_nothing(run, seq):
    engine = run.engine
    size = engine.page_bytes
    before = engine.length(seq), engine.free_pages
    with pytest.raises(ValueError, match="within a page, at position 150"):
        engine.append_pages(seq, np.zeros((1, size), np.uint8))
    other = engine.new_sequence()
    for wrong in (np.zeros((1, size - 1), np.uint8), np.zeros((1, 0), np.uint8)):
        with pytest.raises(ValueError, match=f"a page has {size} bytes"):
            engine.append_pages(other, wrong)
    for wrong in (
        np.zeros(size, np.uint8),
        np.zeros((1, size), np.float32),
        None,
        np.zeros((2, size), np.uint8).T,
    ):
        with pytest.raises((TypeError, ValueError)):
            engine.append_pages(other, wrong)
    with pytest.raises(_native.OutOfPages, match="6 pages are needed, but 5 of"):
        engine.append_pages(other, np.zeros((6, size), np.uint8))
    assert (engine.length(seq), engine.free_pages, engine.length(other)) == (*before, 0)
    engine.free_sequence(other)


def test_dead_sequences_are_refused(run):
    engine = run.engine
    dead = engine.new_sequence()
    engine.free_sequence(dead)
    for seq in (dead, -1, 10**6):
        with pytest.raises(ValueError, match="no sequence"):
            engine.read_pages(seq, 0, 0)
        with pytest.raises(ValueError, match="no sequence"):
            engine.append_pages(seq, np.zeros((1, engine.page_bytes), np.uint8))


def test_page_sizes(run):
    engine = run.engine
    assert engine.page_tokens == PAGE
    assert engine.free_pages * PAGE == engine.free_tokens
    layers, kv_heads, head_dim = 2, 2, 64
    assert engine.page_bytes == layers * 2 * kv_heads * head_dim * PAGE * 2
