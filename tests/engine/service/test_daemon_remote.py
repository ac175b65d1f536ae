"""The daemon as a process with a remote in its service.toml: what it asks and shows, up and down."""

import asyncio
import json
from dataclasses import asdict

import pytest
from typer.testing import CliRunner

from engine.client import service
from engine.client.link import DaemonLink
from engine.client.remote import RemoteEngine
from engine.service import doctor
from engine.service.protocol import STATE
from engine.service.settings import settings_file
from lsp_server.cli import app

CANARY = "canary-in-the-source"
KEY = "sk-secret-of-the-team"


@pytest.fixture
def configure(daemon_home, fake_remote, monkeypatch):
    """Write service.toml: a remote whose model is the default, with what a test adds."""
    monkeypatch.setenv("TEAM_KEY", KEY)

    def configure(more=""):
        settings_file().parent.mkdir(parents=True, exist_ok=True)
        settings_file().write_text(
            'model = "near"\nlog_level = "debug"\n\n[[remote]]\nname = "team"\nkey = "env:TEAM_KEY"\n'
            f'url = "{fake_remote.url}"\n'
            f'retries = 0\nmodels = {{ near = {{ name = "big", fim = "qwen-coder" }} }}\n{more}\n'
        )

    return configure


async def ask(daemon_home):
    body = json.dumps({"prefix": f"{CANARY} b", "suffix": ""}).encode()
    answer = await daemon_home.ask("POST", "/hearth/v1/infill?model=near", body)
    return [json.loads(line) for line in answer.splitlines()]


async def state(daemon_home):
    return json.loads(await daemon_home.ask("GET", STATE))


async def until(daemon_home, health):
    while (told := await state(daemon_home))["remotes"][0]["health"] != health:
        await asyncio.sleep(0)
    return told


async def test_it_asks_the_remote_and_loads_nothing(daemon_home, fake_remote, configure):
    configure()
    await asyncio.to_thread(daemon_home.start)
    assert [line.get("text", "") for line in await ask(daemon_home)] == ["one ", "two", ""]
    prompt = f"<|fim_prefix|>{CANARY} b<|fim_suffix|>\n<|fim_middle|>"
    assert fake_remote.body["prompt"] == prompt
    assert fake_remote.asked("/v1/completions")[0].headers["authorization"] == f"Bearer {KEY}"
    told = await until(daemon_home, "up")
    assert (told["model"], told["current_model"], told["requests"]["loads"]) == ("near", "", 0)
    assert told["remotes"][0]["counts"]["requests"] == 1
    models = json.loads(await daemon_home.ask("GET", "/v1/models"))
    assert "near" in [model["id"] for model in models["data"]]
    assert "" not in [model["id"] for model in models["data"]]
    editor = RemoteEngine(DaemonLink(), "near")
    await editor.load()
    status = await editor.status()
    assert (status.state, status.model, status.supports_infill) == ("ready", "near", True)
    assert (await state(daemon_home))["requests"]["loads"] == 0
    shown = await asyncio.to_thread(lambda: CliRunner().invoke(app, ["status"]).stdout)
    assert "remote    team: up; near" in shown
    everything = json.dumps(told) + daemon_home.log() + shown
    assert KEY not in everything
    assert CANARY not in everything


async def test_when_it_is_killed_the_fallback_answers_until_it_is_back(daemon_home, fake_remote, configure):
    configure('fallback = "small"')
    await asyncio.to_thread(daemon_home.start)
    await ask(daemon_home)
    await fake_remote.stop()
    for _ in range(4):
        assert [line.get("text", "") for line in await ask(daemon_home)] == [CANARY, "b", ""]
    told = await until(daemon_home, "down")
    assert told["current_model"] == "small"
    assert told["remotes"][0]["counts"]["fallbacks"] == 4
    shown = await asyncio.to_thread(lambda: CliRunner().invoke(app, ["status"]).stdout)
    assert f"{fake_remote.url}: The remote team cannot be connected to." in shown
    assert "4 answered by small" in shown
    await fake_remote.start()
    await until(daemon_home, "up")
    assert [line.get("text", "") for line in await ask(daemon_home)] == ["one ", "two", ""]
    assert CANARY not in daemon_home.log()


async def test_the_doctor_asks_each_remote_and_has_a_fix(daemon_home, fake_remote, configure, monkeypatch):
    monkeypatch.delenv("HEARTH_MODEL_PATH", raising=False)
    monkeypatch.setattr(doctor, "run_tool", lambda command: None)
    monkeypatch.setattr(doctor.shutil, "which", lambda program: None)
    configure()

    async def examine():
        report = await asyncio.to_thread(service.examine)
        return report, [trouble.what for trouble in report.troubles if "team" in trouble.what]

    report, troubles = await examine()
    assert [remote.health for remote in report.remotes] == ["up"]
    assert troubles == []
    # A remote answers by default, so that no model of this machine is needed.
    assert not any("models pull" in trouble.action for trouble in report.troubles)
    configure('fallback = "qwen2.5-coder-1.5b"')
    report, (trouble,) = await examine()
    assert trouble == "The fallback qwen2.5-coder-1.5b of the remote team is not on this machine."
    assert report.troubles[-1].action == "Run: hearth models pull qwen2.5-coder-1.5b"
    configure()
    fake_remote.on("/v1/models", fake_remote.value({"data": [{"id": "another"}]}))
    assert "does not list big; it lists another" in (await examine())[1][0]
    fake_remote.on("/v1/models", fake_remote.value({"error": "no"}, 401))
    assert "refuses the key" in (await examine())[1][0]
    await fake_remote.stop()
    report, troubles = await examine()
    assert "cannot be connected to" in troubles[0]
    assert fake_remote.url in troubles[0]
    shown = await asyncio.to_thread(lambda: CliRunner().invoke(app, ["doctor"]).stdout)
    assert f"remote    team: down, {fake_remote.url} (down); models near" in shown
    assert KEY not in shown + json.dumps(asdict(report))
    settings_file().write_text("[[remote]]\nname = 3\n")
    report = await asyncio.to_thread(service.examine)
    assert any("remote[0].name" in trouble.what for trouble in report.troubles)
