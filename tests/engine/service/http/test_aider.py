"""aider, a coding agent that people use, edits a file with the real daemon and a real model behind it."""

import ast
import os
import subprocess

import pytest

pytestmark = pytest.mark.model

# The 0.5B model writes the examples of aider's own instructions back; this one follows them.
MODEL = "qwen2.5-coder-1.5b"
BEFORE = "def add(a, b):\n    return a + b\n"


@pytest.fixture
def aider():
    """The command; see tools/aider.sh."""
    command = os.environ.get("HEARTH_AIDER")
    if not command:
        pytest.skip("aider is not there: HEARTH_AIDER must be what tools/aider.sh prints")
    return command


def test_aider_edits_a_file(aider, daemon_home, real_model, tmp_path, monkeypatch):
    monkeypatch.setenv("HEARTH_MODEL_PATH", str(real_model(MODEL).parent))
    (daemon_home.home / "config").mkdir(parents=True)
    (daemon_home.home / "config/service.toml").write_text(f'model = "{MODEL}"\ntcp_port = 0\n')
    daemon_home.start(command=daemon_home.real)
    project = tmp_path / "project"
    project.mkdir()
    file = project / "calc.py"
    file.write_text(BEFORE)
    done = subprocess.run(
        [
            aider,
            *("--model", f"openai/{MODEL}", "--message", "Rename the function add to plus."),
            *("--edit-format", "whole", "--map-tokens", "0", "--yes-always", "--no-git", "--no-auto-lint"),
            *("--no-check-update", "--analytics-disable", "--no-show-model-warnings", "--no-detect-urls"),
            *("--no-pretty", "--no-fancy-input", "--no-suggest-shell-commands"),
            file.name,
        ],
        cwd=project,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "OPENAI_API_BASE": f"http://127.0.0.1:{daemon_home.state()['tcp_port']}/v1",
            "OPENAI_API_KEY": (daemon_home.home / "state/token").read_text().strip(),
            # Else it looks for a newer list of prices.
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Applied edit to calc.py" in done.stdout
    assert ast.dump(ast.parse(file.read_text())) == ast.dump(ast.parse(BEFORE.replace("add", "plus")))
    assert sorted(path.name for path in project.iterdir() if not path.name.startswith(".")) == [file.name]
