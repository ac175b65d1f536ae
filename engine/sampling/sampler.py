"""From logits to a token id.

Order of application, that of llama.cpp's default chain where it has one: repetition, presence and
frequency penalties; top-k; top-p; min-p; temperature; draw. So top-p and min-p see the distribution
before temperature. Ties are broken towards the lower id everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import HearthError, RequestError
from engine.types import SamplingParams

Logits = NDArray[np.float32]
_FIRST_LOOK = 256  # how many of the likeliest tokens top-p looks at before it looks further


@dataclass(frozen=True, slots=True)
class Sample:
    """token: the id drawn. logprob: its natural-log probability under softmax(logits), before penalties
    and temperature; None when not asked for."""

    token: int
    logprob: float | None


class Sampler:
    """Draws the tokens of one generation; not for several threads at once."""

    def __init__(self, params: SamplingParams) -> None:
        """Raises RequestError when a parameter is out of its range."""
        _check(params)
        self._params = params
        self._random = np.random.Generator(np.random.PCG64(params.seed))
        self._penalised = _penalises(params)
        self.is_greedy = params.temperature == 0
        """Whether the likeliest token is always drawn."""

    def sample(self, logits: Logits, history: Sequence[int] = (), *, want_logprob: bool = True) -> Sample:
        """Draw one token.

        logits: shape (n_vocab,), in nats; -inf forbids a token.
        history: prompt and generated ids so far; the penalties see its last `penalty_window`.
        Raises HearthError when no token is allowed or a logit is NaN.
        """
        if self._params.temperature == 0:
            scores = _penalise(logits, self._params, history) if self._penalised else logits
            token = int(np.argmax(scores))
            if not math.isfinite(scores[token]):
                raise _broken_logits()
        else:
            ids, probabilities = distribution(logits, self._params, history)
            # The last border is exactly the draw's upper bound, so rounding cannot leave the list.
            borders = np.cumsum(probabilities)
            place = np.searchsorted(borders, self._random.random() * borders[-1], side="right")
            token = int(ids[min(int(place), len(ids) - 1)])
        return Sample(token, logprob(logits, token) if want_logprob else None)


def logprob(logits: Logits, token: int) -> float:
    """Natural-log probability of token under softmax(logits); logits of shape (n_vocab,)."""
    top = float(logits.max())
    total = float(np.exp(logits - np.float32(top)).sum(dtype=np.float64))
    return float(logits[token]) - top - math.log(total)


def top_logprobs(logits: Logits, count: int) -> list[tuple[int, float]]:
    """The `count` likeliest ids with their natural-log probabilities under softmax(logits), in order."""
    count = min(count, len(logits))
    if count == 0:
        return []
    top = float(logits.max())
    total = math.log(float(np.exp(logits - np.float32(top)).sum(dtype=np.float64)))
    ids = _largest(logits, count) if count < len(logits) else np.argsort(-logits, kind="stable")
    return [(int(token), float(logits[token]) - top - total) for token in ids]


def distribution(
    logits: Logits, params: SamplingParams, history: Sequence[int] = ()
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The ids that can be drawn and their probabilities (float64, sum 1), for a temperature above 0.

    Raises HearthError when no token is allowed or a logit is NaN.
    """
    scores = _penalise(logits, params, history) if _penalises(params) else logits
    top = float(scores.max())
    if not math.isfinite(top):
        raise _broken_logits()
    limit = params.top_k if 0 < params.top_k < len(scores) else len(scores)
    if params.top_p < 1:
        ids = _nucleus(scores, limit, params.top_p)
    elif limit < len(scores):
        ids = _largest(scores, limit)
    else:
        ids = np.arange(len(scores))
    kept = scores[ids].astype(np.float64)
    if params.min_p > 0:
        likely = kept >= top + math.log(params.min_p)
        ids, kept = ids[likely], kept[likely]
    weights = np.exp((kept - top) / params.temperature)
    return ids, weights / weights.sum()


def _largest(scores: Logits, count: int) -> NDArray[np.int64]:
    """Ids of the `count` largest scores, largest first, lower ids first among equals."""
    border = np.partition(scores, len(scores) - count)[len(scores) - count]
    above = np.flatnonzero(scores > border)
    ties = np.flatnonzero(scores == border)[: count - len(above)]
    ids = np.sort(np.concatenate([above, ties]))
    return ids[np.argsort(-scores[ids], kind="stable")]


def _nucleus(scores: Logits, limit: int, top_p: float) -> NDArray[np.int64]:
    """The fewest of the `limit` likeliest ids whose share of those `limit` reaches top_p; never none.

    Looks at a few ids first: sorting a whole vocabulary takes 10 ms, and the nucleus is nearly always small.
    """
    within = _largest(scores, limit) if limit < len(scores) else None
    top = float(scores.max())
    pool = scores if within is None else scores[within]
    total = np.exp(pool.astype(np.float64) - top).sum()
    look = _FIRST_LOOK
    while True:
        ids = within if within is not None else _largest(scores, min(look, limit))
        mass = np.cumsum(np.exp(scores[ids].astype(np.float64) - top)) / total
        if mass[-1] >= top_p or len(ids) == limit:
            return ids[: int(np.searchsorted(mass, top_p, side="left")) + 1]
        look *= 8


def _penalise(logits: Logits, params: SamplingParams, history: Sequence[int]) -> Logits:
    recent = np.asarray(history[max(0, len(history) - params.penalty_window) :], dtype=np.int64)
    if not recent.size:
        return logits
    ids, counts = np.unique(recent, return_counts=True)
    seen = logits[ids]
    penalty = np.float32(params.repetition_penalty)
    seen = np.where(seen > 0, seen / penalty, seen * penalty)
    seen -= counts.astype(np.float32) * np.float32(params.frequency_penalty)
    scores = logits.copy()
    scores[ids] = seen - np.float32(params.presence_penalty)
    return scores


def _penalises(params: SamplingParams) -> bool:
    changes = params.repetition_penalty != 1 or params.presence_penalty != 0 or params.frequency_penalty != 0
    return changes and params.penalty_window > 0


def _broken_logits() -> HearthError:
    return HearthError(
        "The model's output holds no usable number for any token.",
        meaning="The generation cannot go on.",
        action="Run `hearth models verify`; if the file is sound, please report this as a defect.",
    )


def _check(params: SamplingParams) -> None:
    limits = (
        ("temperature", params.temperature, 0.0, 100.0),
        ("top_k", params.top_k, 0, math.inf),
        ("top_p", params.top_p, 0.0, 1.0),
        ("min_p", params.min_p, 0.0, 1.0),
        ("repetition_penalty", params.repetition_penalty, 1e-3, 100.0),
        ("presence_penalty", params.presence_penalty, -100.0, 100.0),
        ("frequency_penalty", params.frequency_penalty, -100.0, 100.0),
        ("penalty_window", params.penalty_window, 0, math.inf),
        ("seed", 0 if params.seed is None else params.seed, 0, math.inf),
    )
    for name, value, low, high in limits:
        if not low <= value <= high:  # NaN fails too
            raise RequestError(
                f"The sampling parameter {name} is {value}; it must be between {low:g} and {high:g}.",
                action=f"Set {name} to a value in that range.",
            )
