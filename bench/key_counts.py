"""What is counted in `bench.lsp_keys`, and the figures made of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Change:
    """A didChange: when it was sent, on the clock that all processes share, and whether a completion ran."""

    version: int
    sent_ns: int
    busy: bool


@dataclass(frozen=True)
class Fresh:
    """Where the time of a fresh item went; the parts, in seconds, sum up to `took`.

    waited: until the request before it had let go of the engine. prompt: cutting and tokenising. queue,
    prefill, decode: the engine's, the stopping included. other: messages, rules, fitting in.
    """

    took: float
    waited: float
    prompt: float
    queue: float
    prefill: float
    decode: float
    other: float
    prompt_tokens: int
    prefill_tokens: int
    generated_tokens: int

    @classmethod
    def of(cls, took: float, trace: dict[str, Any]) -> Fresh:
        """From the server's own account."""
        sample, waited = trace["samples"][0], trace["waited_s"]
        timing, elapsed = sample["timing"], sample["elapsed_s"]
        decode = timing["decode_s"]
        if sample["finish"] == "stopped by rule":  # then the timing is that of the first piece
            decode += elapsed - sample["first_piece_s"]
        prompt = elapsed - timing["queue_s"] - timing["prefill_s"] - decode
        return cls(
            took,
            waited,
            prompt,
            timing["queue_s"],
            timing["prefill_s"],
            decode,
            took - waited - elapsed,
            timing["prompt_tokens"],
            timing["prompt_tokens"] - timing["cached_tokens"],
            sample["tokens"],
        )


PARTS = ("waited", "prompt", "queue", "prefill", "decode", "other")
TOKENS = ("prompt_tokens", "prefill_tokens", "generated_tokens")


@dataclass
class Counts:
    """What happened, over all streams; times in seconds."""

    keys: int = 0
    accepted: int = 0
    accepted_characters: int = 0
    requests: int = 0
    superseded: int = 0
    empty: int = 0
    overtaken: int = 0  # answered with an item after the next key was sent: an editor drops it
    misplaced: list[str] = field(default_factory=list)  # items that do not fit the document: must stay empty
    fresh: list[Fresh] = field(default_factory=list)
    cached: list[float] = field(default_factory=list)
    followed: list[float] = field(default_factory=list)
    unexplained: list[float] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)


def change_delays(changes: list[Change], log: str) -> list[float]:
    """Seconds from the sending of each change to its being applied, by the server's debug log."""
    applied = [
        (int(version), int(at)) for version, at in re.findall(r"version (\d+) applied at (\d+) ns", log)
    ]
    if [version for version, _ in applied] != [change.version for change in changes]:
        raise SystemExit("The server's log does not tell of the changes that were sent.")
    return [(at - change.sent_ns) / 1e9 for change, (_, at) in zip(changes, applied, strict=True)]


def percentile(values: list[float], share: float) -> float | None:
    """In milliseconds; None of no values."""
    if not values:
        return None
    ordered = sorted(values)
    return round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)


def summary(counts: Counts, change_delays_s: list[float]) -> dict[str, Any]:
    fresh = [item.took for item in counts.fresh]
    items = fresh + counts.cached + counts.followed + counts.unexplained
    pairs = list(zip(counts.changes, change_delays_s, strict=True))
    return {
        "keys": counts.keys,
        "requests": counts.requests,
        "superseded": counts.superseded,
        "empty": counts.empty,
        "overtaken": counts.overtaken,
        "items": len(items),
        "items_from_cache": len(counts.cached),
        "items_followed": len(counts.followed),
        "items_unexplained": len(counts.unexplained),
        "misplaced": counts.misplaced,
        "accepted": counts.accepted,
        "accepted_characters": counts.accepted_characters,
        "item_ms": spread(items),
        "fresh_item_ms": spread(fresh),
        "followed_item_ms": spread(counts.followed),
        "fresh_items": breakdown(counts.fresh),
        "fresh_items_slowest_twentieth": breakdown(slowest(counts.fresh)),
        "change_ms": spread([delay for change, delay in pairs if not change.busy]),
        "change_while_running_ms": spread([delay for change, delay in pairs if change.busy]),
    }


def spread(values: list[float]) -> dict[str, float | int | None]:
    """Of seconds, in milliseconds."""
    shares = {"p50": 0.5, "p95": 0.95, "max": 1.0}
    return {"n": len(values)} | {name: percentile(values, share) for name, share in shares.items()}


def slowest(items: list[Fresh]) -> list[Fresh]:
    """The twentieth that took longest, at least one: what the 95th percentile is made of."""
    return sorted(items, key=lambda item: item.took)[-max(1, len(items) // 20) :]


def breakdown(items: list[Fresh]) -> dict[str, float | int]:
    """Means of the parts in milliseconds, and of the tokens."""
    if not items:
        return {"n": 0}
    means = {name: sum(getattr(item, name) for item in items) / len(items) for name in PARTS + TOKENS}
    return {"n": len(items)} | {
        f"{name}_ms" if name in PARTS else name: round(1000 * mean if name in PARTS else mean, 1)
        for name, mean in means.items()
    }
