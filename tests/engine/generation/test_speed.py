import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.generation.speed import (
    CHUNK_SECONDS,
    MAX_CHUNK,
    MIN_CHUNK,
    PREFILL_GOAL_SECONDS,
    UNCACHED_SHARE,
    PromptBudget,
    Speed,
    self_test,
)


def speed_for(tokens):
    """The prefill speed at which `tokens` are just affordable."""
    return tokens * UNCACHED_SHARE / PREFILL_GOAL_SECONDS


def test_first_measurement_counts_fully_and_later_ones_move_the_average():
    speed = Speed()
    speed.record(100, 1, 0.5)
    speed.record(1, 1, 0.05)
    assert (speed.prefill_tps, speed.decode_tps) == (200, 20)
    speed.record(100, 1, 1.0)
    assert 100 < speed.prefill_tps < 200
    assert speed.decode_tps == 20


@pytest.mark.parametrize(
    ("rows", "sequences", "seconds"), [(5, 1, 1.0), (100, 2, 1.0), (3, 3, 1.0), (100, 1, 0.0)]
)
def test_mixed_and_short_steps_measure_nothing(rows, sequences, seconds):
    speed = Speed()
    speed.record(rows, sequences, seconds)
    assert (speed.prefill_tps, speed.decode_tps) == (0, 0)


@given(st.floats(0, 1e6))
def test_a_chunk_takes_about_its_time_within_bounds(tps):
    speed = Speed()
    speed.prefill_tps = tps
    assert MIN_CHUNK <= speed.chunk_tokens <= MAX_CHUNK
    if speed.chunk_tokens > MIN_CHUNK:
        assert speed.chunk_tokens <= tps * CHUNK_SECONDS


def test_self_test_skips_the_first_touch_and_frees_its_sequence(fakes):
    now = itertools.count()
    backend = fakes.Backend()
    backend.inside = lambda: next(now)  # one second passes in each forward, beside one at each reading
    speed = Speed()
    self_test(backend, speed, clock=lambda: next(now))
    assert speed.prefill_tps == 32 / 2
    assert speed.decode_tps == 1 / 2
    assert backend.sequences == {}
    assert len(backend.calls) == 5


@pytest.mark.parametrize(
    ("affordable", "budget"),
    [(1, 256), (256, 256), (511, 256), (512, 512), (3000, 2048), (7000, 4096), (8000, 7936)],
)
def test_budget_is_the_largest_affordable_step(affordable, budget):
    assert PromptBudget(7936).tokens(speed_for(affordable) * 1.0001) == budget


def test_budget_stays_while_the_speed_wobbles_about_a_border():
    budget = PromptBudget(7936)
    assert budget.tokens(speed_for(520)) == 512
    assert {budget.tokens(speed_for(n)) for n in (500, 600, 450, 1100, 420, 1200)} == {512}
    assert budget.tokens(speed_for(400)) == 256
    assert budget.tokens(speed_for(600)) == 256
    assert budget.tokens(speed_for(700)) == 512
    assert budget.tokens(speed_for(1e6)) == 7936


@given(st.integers(1, 100_000), st.lists(st.floats(0, 1e7), min_size=1, max_size=5))
def test_budget_never_exceeds_the_window(window, speeds):
    budget = PromptBudget(window)
    for tps in speeds:
        assert min(256, window) <= budget.tokens(tps) <= window
