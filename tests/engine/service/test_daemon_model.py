"""The daemon as it is installed, around a real engine with a tiny model."""

import asyncio
import json
import signal

import pytest

from engine.client import link as link_module
from engine.client.http import exchange
from engine.client.link import DaemonLink
from engine.errors import EngineUnavailable
from engine.service.protocol import PROTOCOL, STATE

TOKENS = [1 + n % 300 for n in range(800)]  # three chunks of KV pages and some more


@pytest.fixture
def path(tiny_model):
    return str(tiny_model("qwen2"))


def completion(**more):
    return json.dumps({"prompt": TOKENS, "max_tokens": 4, **more}).encode()


async def complete(daemon_home):
    """The text, and how many tokens of the prompt were found in the cache."""
    answer = await daemon_home.ask("POST", "/hearth/v1/complete", completion())
    lines = [json.loads(line) for line in answer.splitlines()]
    return "".join(line["text"] for line in lines), lines[-1]["timing"]["cached_tokens"]


async def until(daemon_home, holds):
    """The state, once it is as wished."""
    async with asyncio.timeout(60):
        while not holds(state := json.loads(await daemon_home.ask("GET", STATE))):
            await asyncio.sleep(0)
    return state


def disk_is_open(state):
    return state["cache"] is not None and state["cache"]["disk"]["state"] == "ready"


async def test_a_replaced_daemons_cache_is_its_successors(daemon_home, path, monkeypatch):
    older = daemon_home.start("--model", path, command=daemon_home.real)
    await until(daemon_home, disk_is_open)
    answer, cached = await complete(daemon_home)
    assert cached == 0
    monkeypatch.setattr(link_module, "PROTOCOL", PROTOCOL + 1)
    # What takes over is of this protocol too, since there is no other; the client says so in the end.
    with pytest.raises(EngineUnavailable, match="another version"):
        await DaemonLink(("--model", path), command=daemon_home.real).ensure()
    assert await asyncio.to_thread(older.wait) == 0
    state = await until(daemon_home, disk_is_open)
    assert state["pid"] != older.pid
    again, cached = await complete(daemon_home)
    assert again == answer
    assert cached >= 768
    assert (await until(daemon_home, disk_is_open))["cache"]["disk_tokens"] >= 768


async def test_an_idle_model_is_let_go_and_comes_back(daemon_home, path):
    (daemon_home.home / "config").mkdir(parents=True)
    (daemon_home.home / "config/service.toml").write_text("idle_minutes = 0.01\n")
    daemon_home.start("--model", path, command=daemon_home.real)
    answer, _ = await complete(daemon_home)
    state = await until(daemon_home, lambda state: state["engine"]["state"] == "unloaded")
    assert state["cache"] is None
    loads = state["requests"]["loads"]
    assert (await complete(daemon_home))[0] == answer
    assert json.loads(await daemon_home.ask("GET", STATE))["requests"]["loads"] == loads + 1


async def test_a_stream_that_runs_ends_before_the_daemon_does(daemon_home, path):
    daemon = daemon_home.start("--model", path, command=daemon_home.real)
    await until(daemon_home, disk_is_open)
    # All of the window, so that it runs when the signal comes.
    async with exchange(
        daemon_home.places.socket,
        "POST",
        "/hearth/v1/complete",
        body=json.dumps({"prompt": [5], "max_tokens": 1000}).encode(),
    ) as response:
        lines = response.lines()
        pieces = [json.loads(await anext(lines))]
        daemon.send_signal(signal.SIGTERM)
        pieces += [json.loads(line) async for line in lines]
    assert pieces[-1]["finish"] in ("length", "stop")
    assert await asyncio.to_thread(daemon.wait) == 0
    assert "ERROR" not in daemon_home.log()
