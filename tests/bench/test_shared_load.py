"""The bench of a shared daemon: its arithmetic, and one small run of all its parts on a tiny model."""

from bench import shared_load
from bench.shared_load import chunk_seconds, goal


def test_the_goal_is_one_and_a_half_times_idle_and_a_step():
    idle, step = [0.1] * 20, 0.05
    assert goal(idle, [0.2] * 20, step) == {"p95_ms": 200.0, "allowed_ms": 200.0, "met": True}
    assert goal(idle, [0.201] * 20, step)["met"] is False
    assert goal([], idle, step) == {"met": None}


def test_a_chunk_takes_what_the_scheduler_allows_it_and_the_smallest_one_what_it_takes():
    assert chunk_seconds(640.0) == 0.1
    assert chunk_seconds(100.0) == 0.16


async def test_two_servers_and_a_tool_share_one_model(tiny_model, monkeypatch):
    monkeypatch.setattr(shared_load, "STEP_PIECES", 3)
    result = await shared_load.measure(tiny_model("qwen2"), asks=2)
    assert set(result["phases"]) == {"idle", "chat", "prefill"}
    for phase in result["phases"].values():
        assert phase["fresh_item_ms"]["n"] + phase["cached"] + phase["empty"] == 4
    assert all(size > 10 for size in result["memory_mib"].values())
    assert result["step_ms"]["chat"] > 0
