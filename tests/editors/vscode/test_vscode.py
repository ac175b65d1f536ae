"""The VS Code extension in a real VS Code. The tests themselves are the .mjs files beside; this runs them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.editor, pytest.mark.timeout(600)]
HERE = Path(__file__).parent
EXTENSION = HERE.parents[2] / "editors" / "vscode"


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


@pytest.mark.parametrize("script", ["e2e.mjs", "in_host.mjs"])
def test_in_vscode(
    script: str, vsix: Path, vscode_tools: dict[str, str], tmp_path: Path, artefacts: Path
) -> None:
    log = tmp_path / "server.jsonl"
    scripted = [str(HERE.parent / "scripted_server.py"), str(tmp_path / "script.json"), str(log)]
    config: dict[str, Any] = {
        "folder": str(tmp_path),
        "artefacts": str(artefacts),
        "extension": str(EXTENSION),
        "vsix": str(vsix),
        "node": vscode_tools["node"],
        "codeServer": vscode_tools["code-server"],
        "chromium": vscode_tools["chromium"],
        "server": [sys.executable, *scripted],
    }
    config_file = tmp_path / "config.json"
    config_file.write_text(json.dumps(config), encoding="utf-8")
    done = subprocess.run(
        [vscode_tools["node"], str(HERE / script), str(config_file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    (artefacts / f"{script}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    count = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
    assert count is not None, done.stdout[-4000:] + done.stderr[-4000:]
    assert int(count[1]) > 0
    assert int(count[2]) == 0, done.stdout[-8000:]
    assert done.returncode == 0
