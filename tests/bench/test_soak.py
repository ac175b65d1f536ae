"""The soak, scaled down: a tiny model, few requests, one kill; and that it would notice."""

import asyncio
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from bench.soak.answers import Answer, of_json
from bench.soak.questions import Known
from bench.soak.run import FIRST, PAGES_BACK, Settings, Soak, cold_answers
from bench.soak.watch import Life, Sample

SOAK = Settings(
    model=Path(), requests=120, clients=8, kills=1, seed=5, context_tokens=512, threads=1, spoil=True
)


@pytest.fixture(scope="module")
def settings(tiny_model):
    return replace(SOAK, model=tiny_model("qwen2", tools=True))


@pytest.fixture(scope="module")
def pools(settings):
    """Every question with its cold answer."""
    return asyncio.run(cold_answers(settings, random.Random(settings.seed)))


def test_after_many_requests_cancellations_and_a_kill_nothing_is_wrong_or_left(settings, pools):
    outcome = asyncio.run(Soak(settings, pools, random.Random(settings.seed)).run())
    assert outcome.faults == []
    assert outcome.kills == 1
    assert sum(outcome.asked.values()) == settings.requests
    assert sum(outcome.whole.values()) + sum(outcome.cut.values()) == settings.requests
    assert outcome.cut
    assert outcome.whole["tools"]
    assert all(series[0].cold.end.startswith("tool_calls") for series in pools[FIRST]["replays"])
    assert outcome.cache["hits"] > 0
    assert len(outcome.harms) == 4
    assert len({life.pid for life in outcome.lives}) == 2


def test_a_wrong_answer_and_a_leaked_page_are_noticed(settings, pools):
    chats = [
        [Known(known.question, replace(known.cold, text="?", end="?")) for known in series]
        for series in pools[FIRST]["chats"]
    ]
    few = replace(settings, requests=8, kills=0, cancelled=0.0, spoil=False)
    outcome = asyncio.run(Soak(few, {FIRST: {"chats": chats}}, random.Random(0)).run())
    assert outcome.wrong["chats"] == len(outcome.faults) == few.requests
    soak = Soak(few, pools, random.Random(0))
    soak.account(f"INFO engine: {PAGES_BACK}\n")
    assert soak.outcome.faults == []
    soak.account("WARNING engine: KV pages of 64 tokens were not given back\n")
    assert len(soak.outcome.faults) == 2


def test_a_part_of_an_answer_agrees_with_the_whole_and_another_text_does_not():
    whole = Answer("one two", "f{}", "stop")
    assert Answer("one", "f{", "").agrees_with(whole)
    assert Answer().agrees_with(whole)
    assert (Answer("one") + Answer(" two", "f{}", "stop")).agrees_with(whole)
    assert not Answer("one t", "g").agrees_with(whole)
    assert not Answer("one two!").agrees_with(whole)
    assert not Answer("one", "f{}", "stop").agrees_with(whole)
    assert not Answer("one two", "f{}", "length").agrees_with(whole)


def test_what_passes_is_left_out_of_a_whole_answer_and_nothing_else():
    answer = {"id": "a", "choices": [{"text": "x", "index": 0}], "usage": {"cached": 1}}
    assert json.loads(of_json(answer).end) == {"choices": [{"text": "x", "index": 0}]}


def test_growth_is_told_from_the_first_third_on():
    life = Life(1, [Sample(10 * n, 100.0 if n < 10 else 150.0 + n, 9, 7) for n in range(30)])
    growth, slope = life.later_growth()
    assert growth == pytest.approx(16, abs=1)
    assert slope == pytest.approx(100, abs=1)
