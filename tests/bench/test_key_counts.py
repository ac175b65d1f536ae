"""The parts of an item's time are what the server tells, and nothing is lost between them."""

from __future__ import annotations

from typing import Any

import pytest

from bench.key_counts import PARTS, Change, Fresh, breakdown, change_delays, slowest


def trace(finish: str, decode_s: float) -> dict[str, Any]:
    timing = {
        "prompt_tokens": 90,
        "cached_tokens": 60,
        "queue_s": 0.01,
        "prefill_s": 0.2,
        "decode_s": decode_s,
    }
    sample = {"timing": timing, "elapsed_s": 0.5, "first_piece_s": 0.25, "finish": finish, "tokens": 9}
    return {"waited_s": 0.05, "samples": [sample]}


@pytest.mark.parametrize(
    ("finish", "told", "decode", "prompt"),
    [("stop", 0.28, 0.28, 0.01), ("stopped by rule", 0.03, 0.28, 0.01)],
)
def test_parts_sum_up(finish: str, told: float, decode: float, prompt: float) -> None:
    item = Fresh.of(0.6, trace(finish, told))
    assert (item.decode, item.prompt) == (pytest.approx(decode), pytest.approx(prompt))
    assert sum(getattr(item, part) for part in PARTS) == pytest.approx(0.6)
    assert item.prefill_tokens == 30


def test_the_slowest_twentieth_explains_the_95th_percentile() -> None:
    items = [Fresh.of(n / 10, trace("stop", 0.1)) for n in range(40)]
    assert [item.took for item in slowest(items)] == [3.8, 3.9]
    assert breakdown(slowest(items))["prefill_ms"] == 200
    assert breakdown([]) == {"n": 0}


def test_changes_are_matched_with_the_log_in_order() -> None:
    changes = [Change(2, 1_000_000, False), Change(2, 5_000_000, True)]
    log = "x DEBUG y: version 2 applied at 2500000 ns\nother\nx DEBUG y: version 2 applied at 9000000 ns\n"
    assert change_delays(changes, log) == [0.0015, 0.004]
    with pytest.raises(SystemExit):
        change_delays(changes[:1], log)
