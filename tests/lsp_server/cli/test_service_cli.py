"""`hearth status`, `stop`, `logs`, `doctor` and `serve` as a person runs them."""

import json
import os
import signal
import subprocess
import sys

import pytest


@pytest.fixture
def hearth(daemon_home):
    """hearth(*arguments): the finished command, with its output as text."""

    def run(*arguments):
        command = [sys.executable, "-m", "lsp_server", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    return run


def test_status_and_stop_of_a_daemon(hearth, daemon_home):
    daemon = daemon_home.start("--model", "m")
    assert json.loads(hearth("status", "--json").stdout)["pid"] == daemon.pid
    shown = hearth("status")
    assert shown.returncode == 0
    assert f"process {daemon.pid}" in shown.stdout
    assert "model     m: ready" in shown.stdout
    assert "window of 99 tokens" in shown.stdout
    assert "0 running, 0 waiting" in shown.stdout
    assert "512 of 640 tokens in memory; 7 prompt tokens were found in it, 9 computed" in shown.stdout
    stopped = hearth("stop")
    assert (stopped.returncode, stopped.stdout) == (0, "The engine has ended.\n")
    assert daemon.wait() == 0


def test_without_a_daemon(hearth, daemon_home):
    shown = hearth("status")
    assert shown.returncode == 3
    assert "does not run" in shown.stdout
    assert json.loads(hearth("status", "--json").stdout) == {"running": False}
    stopped = hearth("stop")
    assert (stopped.returncode, stopped.stdout) == (0, "The engine does not run.\n")
    logs = hearth("logs")
    assert (logs.returncode, logs.stdout) == (0, "")
    assert str(daemon_home.home / "logs/daemon.log") in logs.stderr
    assert not (daemon_home.home / "run").exists()


def test_logs_shows_the_last_lines(hearth, daemon_home):
    daemon_home.start("--model", "m")
    daemon_home.state()
    assert "the daemon runs, version" in hearth("logs").stdout
    assert hearth("logs", "-n", "1").stdout.count("\n") == 1
    assert hearth("logs", "-n", "0").stdout == ""


def test_logs_in_a_place_that_cannot_be_read_are_told_in_words(hearth, daemon_home):
    in_the_way = daemon_home.home / "logs"
    in_the_way.parent.mkdir(parents=True, exist_ok=True)
    in_the_way.write_text("a file, where a folder should be")
    logs = hearth("logs")
    assert (logs.returncode, logs.stdout) == (1, "")
    assert f"Error: {in_the_way}" in logs.stderr
    assert "Traceback" not in logs.stderr


def test_logs_can_be_followed(daemon_home):
    daemon_home.start("--model", "m")
    daemon_home.state()
    command = [sys.executable, "-m", "lsp_server", "logs", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        for line in following.stdout:
            if "the daemon runs" in line:
                daemon_home.stop()
            if "the daemon ends" in line:
                break
        following.terminate()


def test_doctor_tells_json_and_people_the_same(hearth, daemon_home, monkeypatch):
    monkeypatch.delenv("HEARTH_MODEL_PATH", raising=False)
    told = hearth("doctor", "--json")
    assert told.returncode == 1  # no model is here
    report = json.loads(told.stdout)
    assert report["ok"] is False
    assert {"what", "action"} == set(report["troubles"][0])
    assert set(report) >= {"machine", "back_ends", "kernels", "models", "folders", "daemon", "editors"}
    shown = hearth("doctor")
    assert shown.returncode == 1
    assert f"cpu       {report['machine']['cpu']}" in shown.stdout
    for trouble in report["troubles"]:
        assert f"Problem: {trouble['what']}" in shown.stdout
        assert f"What to do: {trouble['action']}" in shown.stdout


def test_a_hung_daemon_is_not_waited_for_without_end(daemon_home, monkeypatch):
    from engine.client import service
    from engine.errors import EngineUnavailable

    daemon = daemon_home.start()
    monkeypatch.setattr(service, "ANSWER_SECONDS", 0.01)
    os.kill(daemon.pid, signal.SIGSTOP)
    with pytest.raises(EngineUnavailable) as caught:
        service.read_state()
    assert f"kill -9 {daemon.pid}" in caught.value.action
    os.kill(daemon.pid, signal.SIGCONT)


def test_an_untrusted_folder_is_told(hearth, daemon_home):
    folder = daemon_home.places.folder
    folder.chmod(0o755)
    told = hearth("status", "--json")
    folder.chmod(0o700)
    assert told.returncode == 1
    assert json.loads(told.stdout)["error"]["action"] == f"Run: chmod 700 '{folder}'"


def test_a_bad_port_is_wrong_usage(hearth):
    assert hearth("serve", "--tcp", "70000").returncode == 2


def test_serve_until_ctrl_c(hearth, daemon_home, tiny_model):
    command = [sys.executable, "-m", "lsp_server", "serve", "--model", str(tiny_model("qwen2")), "--tcp", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        told = [serving.stderr.readline() for _ in range(3)]
        assert told[0] == f"The engine listens on {daemon_home.places.socket}\n"
        state = daemon_home.state()
        assert state["pid"] == serving.pid
        assert told[1].startswith(f"and on http://127.0.0.1:{state['tcp_port']},")
        assert told[2] == f"{daemon_home.home / 'state/token'}\n"
        again = hearth("serve")
        assert again.returncode == 0
        assert "runs already" in again.stderr
        assert "`hearth stop` first" in again.stderr  # or its options are without effect, and nobody is told
        serving.send_signal(signal.SIGINT)
        assert serving.wait() == 0


def test_serve_that_cannot_start_says_why(hearth, daemon_home):
    (daemon_home.home / "config").mkdir(parents=True)
    (daemon_home.home / "config/service.toml").write_text("threads = -1\n")
    told = hearth("serve")
    assert told.returncode == 1
    assert "threads" in told.stderr
    assert "Traceback" not in told.stderr
