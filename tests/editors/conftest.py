"""Fixtures that the editor tests share: the scripted server, and the editors fetched by tools/editors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20.0  # how long a condition may take on a busy machine; tests go on as soon as it holds


def wait_until(condition: Callable[[], T], what: str) -> T:
    """The condition's first true value; fails with `what` when none comes."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"waited in vain: {what}")
        time.sleep(0.01)


def run_tool(name: str) -> dict[str, str]:
    """Run a set-up script of tools/editors (it skips what is there); what it printed, by name."""
    done = subprocess.run([str(ROOT / "tools/editors" / name)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"tools/editors/{name} could not provide the editor:\n{done.stderr[-2000:]}")
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


class ScriptedServer:
    """The scripted server's two files: what it shall answer, and what it received."""

    def __init__(self, folder: Path) -> None:
        self.script_path = folder / "script.json"
        self.log_path = folder / "server.jsonl"
        self.log_path.touch()
        self.options: dict[str, Any] = {}
        self.rules()

    @property
    def command(self) -> list[str]:
        here = Path(__file__).parent
        return [sys.executable, str(here / "scripted_server.py"), str(self.script_path), str(self.log_path)]

    def rules(self, *rules: dict[str, Any], **options: Any) -> None:
        """Answer by these rules from now on; options (`encoding`, `exit_at_start`) are kept until changed."""
        self.options.update(options)
        fresh = self.script_path.with_suffix(".new")
        script = {"rules": rules, **{key: value for key, value in self.options.items() if value is not None}}
        fresh.write_text(json.dumps(script), encoding="utf-8")
        fresh.replace(self.script_path)

    def received(self, method: str) -> list[dict[str, Any]]:
        """Every message of this method so far, oldest first."""
        lines = self.log_path.read_text(encoding="utf-8").split("\n")[:-1]
        return [message for message in map(json.loads, lines) if message.get("method") == method]

    def order(self, *methods: str) -> list[str]:
        """The order in which messages of these methods came."""
        lines = self.log_path.read_text(encoding="utf-8").split("\n")[:-1]
        return [message["method"] for message in map(json.loads, lines) if message.get("method") in methods]

    def wait_for(self, method: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until at least `count` messages of the method came."""

        def enough() -> list[dict[str, Any]] | None:
            messages = self.received(method)
            return messages if len(messages) >= count else None

        return wait_until(enough, f"{count} x {method} at the server")


@pytest.fixture(scope="session")
def wait() -> Callable[[Callable[[], T], str], T]:
    """`wait_until`, for the test modules."""
    return wait_until


@pytest.fixture
def server(tmp_path: Path) -> ScriptedServer:
    folder = tmp_path / "server"
    folder.mkdir()
    return ScriptedServer(folder)


@pytest.fixture(scope="session")
def artefacts() -> Path:
    """Where screenshots and logs go, outside the source tree; HEARTH_ARTEFACTS overrides it."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hearth-dev" / "artefacts"
    folder = Path(os.environ.get("HEARTH_ARTEFACTS") or default)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def neovims() -> dict[str, str]:
    return run_tool("get-neovim.sh")


@pytest.fixture(scope="session")
def vscode_tools() -> dict[str, str]:
    return run_tool("get-vscode.sh")
