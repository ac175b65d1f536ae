"""The VS Code extension in a real VS Code. The tests themselves are the .mjs files beside; this runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lsp_server.demo.holes import default_folder

pytestmark = [pytest.mark.editor, pytest.mark.timeout(600)]
HERE = Path(__file__).parent
ROOT = HERE.parents[2]
EXTENSION = ROOT / "editors" / "vscode"
BODY = "    return sum(entry.cents for entry in entries if entry.account == account)\n"
PROGRAM = """
from datetime import date
from ledger.entries import Entry
from ledger.report import balance

day = date(2026, 1, 2)
entries = [Entry(day, "food", -1250), Entry(day, "food", 50), Entry(day, "pay", 7)]
assert (balance(entries, "food"), balance(entries, "pay"), balance(entries, "rent")) == (-1200, 7, 0)
"""


def npm(*arguments: str) -> str:
    """Run npm in the extension's folder; what it printed."""
    done = subprocess.run(
        ["npm", *arguments], cwd=EXTENSION, capture_output=True, text=True, check=False, timeout=500
    )
    if done.returncode != 0:
        pytest.fail(f"npm {' '.join(arguments)} failed:\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}")
    return done.stdout


@pytest.fixture(scope="session")
def node_modules() -> None:
    """The extension's development packages, as its lock file pins them."""
    if shutil.which("npm") is None:
        pytest.fail("npm is not on PATH; it is needed to build and test the VS Code extension")
    lock = (EXTENSION / "package-lock.json").read_bytes()
    stamp = EXTENSION / "node_modules" / ".hearth-lock"
    if not stamp.exists() or stamp.read_bytes() != lock:
        npm("ci", "--no-audit", "--no-fund")
        stamp.write_bytes(lock)


@pytest.fixture(scope="session")
def vsix(node_modules: None) -> Path:
    npm("run", "package")
    return EXTENSION / "hearth.vsix"


@pytest.mark.parametrize("script", ["typecheck", "lint", "test"])
def test_the_source_is_sound(node_modules: None, script: str) -> None:
    npm("run", script)


def test_the_lock_file_names_no_host() -> None:
    assert '"resolved"' not in (EXTENSION / "package-lock.json").read_text(encoding="utf-8")


def test_the_package_holds_only_what_runs(vsix: Path) -> None:
    listed = npm("exec", "--", "vsce", "ls", "--no-dependencies").split()
    assert sorted(listed) == ["README.md", "dist/extension.js", "package.json"]
    manifest = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
    trust = manifest["capabilities"]["untrustedWorkspaces"]
    assert trust["supported"] == "limited"
    assert {"hearth.server.path", "hearth.server.args", "hearth.model"} <= set(
        trust["restrictedConfigurations"]
    )
    path_setting = manifest["contributes"]["configuration"]["properties"]["hearth.server.path"]
    assert path_setting["scope"] == "machine-overridable"


@pytest.fixture
def run_in_vscode(
    vsix: Path, vscode_tools: dict[str, str], tmp_path: Path, artefacts: Path
) -> Callable[..., None]:
    """run(script, server, **config): run one .mjs file, with the language server that `server` starts."""

    def run(script: str, server: list[str], **more: Any) -> None:
        config = {
            "folder": str(tmp_path),
            "artefacts": str(artefacts),
            "extension": str(EXTENSION),
            "vsix": str(vsix),
            "node": vscode_tools["node"],
            "codeServer": vscode_tools["code-server"],
            "chromium": vscode_tools["chromium"],
            "server": server,
            **more,
        }
        config_file = tmp_path / "config.json"
        config_file.write_text(json.dumps(config), encoding="utf-8")
        done = subprocess.run(
            [vscode_tools["node"], str(HERE / script), str(config_file)],
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        (artefacts / f"{script}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
        count = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
        assert count is not None, done.stdout[-4000:] + done.stderr[-4000:]
        assert int(count[2]) == 0, done.stdout[-8000:]
        assert int(count[1]) > 0
        assert done.returncode == 0

    return run


@pytest.mark.parametrize("script", ["e2e.mjs", "in_host.mjs"])
def test_in_vscode(script: str, run_in_vscode: Callable[..., None], tmp_path: Path) -> None:
    files = (HERE.parent / "scripted_server.py", tmp_path / "script.json", tmp_path / "server.jsonl")
    run_in_vscode(script, [sys.executable, *map(str, files)])


@pytest.mark.model
@pytest.mark.usefixtures("daemon_home")
def test_a_real_model_completes_a_project(
    run_in_vscode: Callable[..., None], real_model: Callable[[str], Path], tmp_path: Path
) -> None:
    """A function's body is taken out; what the model gives for it must make the project work again."""
    project = tmp_path / "workspace"
    shutil.copytree(default_folder() / "python", project)
    report = project / "ledger" / "report.py"
    whole = report.read_text(encoding="utf-8")
    report.write_text(whole.replace(BODY, "    \n", 1), encoding="utf-8")
    line = whole[: whole.index(BODY)].count("\n") + 1
    run_in_vscode(
        "real.mjs",
        [sys.executable, "-m", "lsp_server", "lsp"],
        settings={"hearth.model": str(real_model("qwen2.5-coder-0.5b"))},
        hole={"file": "ledger/report.py", "line": line, "typed": "return sum("},
    )
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, cwd=project)
