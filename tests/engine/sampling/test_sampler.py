"""Sampling against a brute-force reference in float64, and the draw against its distribution."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import HearthError, RequestError
from engine.sampling import Sampler, distribution, logprob, top_logprobs
from engine.types import SamplingParams

# Quarters make ties frequent and float32 arithmetic on them exact.
scores = st.integers(-40, 40).map(lambda n: n / 4)
logit_lists = st.lists(st.one_of(scores, st.just(-math.inf)), min_size=1, max_size=40).filter(
    lambda values: max(values) > -math.inf
)


def reference(logits, params, history):
    """id -> probability, by lists and loops."""
    values = [float(value) for value in logits]
    recent = list(history)[-params.penalty_window :] if params.penalty_window else []
    for token in set(recent):
        value = values[token]
        value = value / params.repetition_penalty if value > 0 else value * params.repetition_penalty
        values[token] = value - recent.count(token) * params.frequency_penalty - params.presence_penalty
    order = sorted(range(len(values)), key=lambda token: (-values[token], token))
    if params.top_k > 0:
        order = order[: params.top_k]
    top = max(values)
    weights = [math.exp(values[token] - top) for token in order]
    total = sum(weights)
    if params.top_p < 1:
        kept, mass = [], 0.0
        for token, weight in zip(order, weights, strict=True):
            kept.append(token)
            mass += weight / total
            if mass >= params.top_p:
                break
        order = kept
    if params.min_p > 0:
        order = [token for token in order if math.exp(values[token] - top) >= params.min_p * (1 - 1e-12)]
    weights = [math.exp((values[token] - top) / params.temperature) for token in order]
    return {token: weight / sum(weights) for token, weight in zip(order, weights, strict=True) if weight > 0}


def ours(logits, params, history=()):
    ids, probabilities = distribution(np.array(logits, np.float32), params, history)
    return {int(i): float(p) for i, p in zip(ids, probabilities, strict=True) if p > 0}


@settings(deadline=None, max_examples=600)
@given(
    logits=logit_lists,
    data=st.data(),
    temperature=st.sampled_from([0.25, 0.7, 1.0, 2.0]),
    top_k=st.integers(0, 45),
    # Odd thresholds: a sum of rounded terms never lies exactly on them.
    top_p=st.sampled_from([1.0, 0.0, 0.1234567, 0.5123457, 0.9012347, 0.9991237]),
    min_p=st.sampled_from([0.0, 0.0512341, 0.3123413, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.25, 2.0]),
    presence_penalty=st.sampled_from([0.0, 0.5]),
    frequency_penalty=st.sampled_from([0.0, 0.25]),
    penalty_window=st.integers(0, 6),
)
def test_distribution_is_the_references(logits, data, **params):
    history = data.draw(st.lists(st.integers(0, len(logits) - 1), max_size=10))
    params = SamplingParams(**params)
    expected = reference(logits, params, history)
    found = ours(logits, params, history)
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.999])
def test_the_nucleus_of_a_whole_vocabulary(top_p):
    # Flat enough that the first look at the likeliest tokens is too short.
    logits = np.random.default_rng(1).normal(size=20_000).astype(np.float32)
    params = SamplingParams(temperature=1.0, top_p=top_p)
    assert ours(logits, params) == pytest.approx(reference(logits, params, ()), rel=1e-4)


def test_top_k_among_equals_keeps_the_lower_ids():
    assert set(ours([0, 1, 1, 1, 0], SamplingParams(temperature=1, top_k=2))) == {1, 2}


@given(logits=logit_lists)
def test_greedy_takes_the_highest_and_of_equals_the_lowest_id(logits):
    array = np.array(logits, np.float32)
    assert Sampler(SamplingParams()).sample(array).token == logits.index(max(logits))


def test_greedy_heeds_the_penalties():
    sampler = Sampler(SamplingParams(repetition_penalty=2.0))
    logits = np.array([3.0, 2.0], np.float32)
    assert sampler.sample(logits).token == 0
    assert sampler.sample(logits, [0]).token == 1
    assert logits.tolist() == [3.0, 2.0]


@pytest.mark.parametrize("temperature", [0.0, 0.3, 5.0])
@settings(deadline=None)
@given(logits=logit_lists)
def test_logprob_is_the_targets_own(temperature, logits):
    params = SamplingParams(temperature=temperature, seed=3, repetition_penalty=1.5, top_k=3)
    sample = Sampler(params).sample(np.array(logits, np.float32), [0])
    expected = logits[sample.token] - math.log(sum(math.exp(value) for value in logits))
    assert sample.logprob == pytest.approx(expected, abs=1e-5)


def test_logprob_of_huge_logits():
    assert logprob(np.array([3e38, 3e38], np.float32), 0) == pytest.approx(-math.log(2))


def test_logprob_is_left_out_when_not_asked_for():
    assert Sampler(SamplingParams()).sample(np.zeros(3, np.float32), want_logprob=False).logprob is None


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0, seed=11),
        SamplingParams(temperature=0.6, top_k=6, seed=12),
        SamplingParams(temperature=1.5, top_p=0.9, min_p=0.02, presence_penalty=0.7, seed=13),
    ],
)
def test_draws_follow_the_distribution(params):
    logits = np.random.default_rng(5).normal(scale=1.5, size=12).astype(np.float32)
    draws = 20_000
    sampler = Sampler(params)
    tokens = [sampler.sample(logits, [2, 3], want_logprob=False).token for _ in range(draws)]
    counts = np.bincount(tokens, minlength=12)
    expected = reference(logits, params, [2, 3])
    assert set(np.flatnonzero(counts)) <= expected.keys()
    chi_square = sum((counts[token] - draws * p) ** 2 / (draws * p) for token, p in expected.items())
    # 11 degrees of freedom at most; beyond 45 lies 5e-6 of the distribution, and the seed is fixed.
    assert chi_square < 45


def test_a_seed_repeats_the_draws_and_no_seed_does_not():
    logits = np.zeros(1000, np.float32)

    def draws(seed):
        sampler = Sampler(SamplingParams(temperature=1.0, seed=seed))
        return [sampler.sample(logits, want_logprob=False).token for _ in range(20)]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)
    assert draws(None) != draws(None)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [[-math.inf, -math.inf], [math.nan, 1.0], [math.inf, 0.0]])
def test_unusable_logits_are_an_error_in_words(temperature, bad):
    with pytest.raises(HearthError, match="no usable number"):
        Sampler(SamplingParams(temperature=temperature)).sample(np.array(bad, np.float32))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("top_k", -1),
        ("top_p", 1.01),
        ("min_p", -0.5),
        ("repetition_penalty", 0.0),
        ("presence_penalty", math.inf),
        ("frequency_penalty", math.nan),
        ("penalty_window", -1),
        ("seed", -1),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(name, value):
    with pytest.raises(RequestError, match=name):
        Sampler(SamplingParams(**{name: value}))


@pytest.mark.parametrize("count", [0, 1, 5, 50, 60])
def test_top_logprobs_are_the_likeliest_in_order(count):
    logits = np.random.default_rng(3).integers(0, 9, 50).astype(np.float32)  # with ties
    found = top_logprobs(logits, count)
    order = np.argsort(-logits, kind="stable")[:count].tolist()
    assert [token for token, _ in found] == order
    assert [value for _, value in found] == pytest.approx([logprob(logits, token) for token in order])
