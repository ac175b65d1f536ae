"""What `hearth doctor` finds, and that every problem comes with its fix."""

import os
import signal
import socket

import pytest

from engine.backends import native
from engine.client import models as catalogue
from engine.client import service
from engine.service import doctor, machine
from engine.service.lock import Lock


@pytest.fixture
def home(daemon_home, monkeypatch):
    """No editor, no graphics processor, no model but those that a test brings."""
    monkeypatch.delenv("HEARTH_MODEL_PATH", raising=False)
    monkeypatch.setattr(doctor, "run_tool", lambda command: None)
    monkeypatch.setattr(doctor.shutil, "which", lambda program: None)
    return daemon_home


def actions(report):
    return [trouble.action for trouble in report.troubles]


def test_a_fresh_machine_lacks_a_model_only(home):
    report = doctor.examine()
    assert actions(report) == ["Run: hearth models pull qwen2.5-coder-0.5b"]
    assert report.daemon is None
    assert report.machine.cores >= 1
    assert "qwen2" in report.back_ends["native"]
    assert report.kernels[-1] == "scalar"
    assert {fit.state for fit in report.models} == {"absent"}
    assert not home.home.exists()  # it changes nothing


def test_a_model_that_is_here_tells_what_fits(home, tiny_model, monkeypatch):
    path = tiny_model("qwen2")
    entry = doctor.all_entries()[0]
    size = path.stat().st_size
    row = doctor.ModelStatus(
        entry.id, "", "", "", size, "", doctor.ModelState.READY, str(path), True, False, True, ""
    )
    monkeypatch.setattr(doctor, "all_entries", lambda: [entry])
    monkeypatch.setattr(doctor, "status_of", lambda entry: row)
    gguf = native.open_gguf(path)
    layers = gguf.get("qwen2.block_count")
    heads, length = gguf.get("qwen2.attention.head_count_kv"), gguf.get("qwen2.embedding_length")
    per_token = 2 * layers * heads * (length // gguf.get("qwen2.attention.head_count")) * 2
    tokens = native.DEFAULT_CONTEXT + 10
    trained = gguf.get("qwen2.context_length")
    look = machine.look()
    for free, fits in ((size + tokens * per_token, True), (size + 1, False), (0, False), (None, None)):
        values = {name: getattr(look, name) for name in look.__slots__} | {"free_bytes": free}
        monkeypatch.setattr(doctor, "look", lambda values=values: machine.Machine(**values))
        report = doctor.examine()
        (fit,) = report.models
        assert (fit.weights_bytes, fit.kv_bytes_per_token, fit.fits) == (size, per_token, fits)
        assert fit.kv_tokens == (tokens if fits else 0)
        assert (fit.context_tokens, fit.pool_tokens) == (trained, 4 * trained)
        assert bool(report.troubles) == (fits is False)


def test_an_embedding_model_needs_no_room_for_a_cache(home, tiny_encoder):
    catalogue.add("finder", tiny_encoder())
    fit = next(fit for fit in doctor.examine().models if fit.model == "finder")
    assert (fit.state, fit.kv_bytes_per_token, fit.fits) == ("ready", 0, True)


def test_a_missing_extension_is_told(home, monkeypatch):
    def missing(name):
        raise ImportError("no such file")

    monkeypatch.setattr(native, "import_module", missing)
    report = doctor.examine()
    assert any("CONTRIBUTING.md" in action for action in actions(report))
    assert report.folders  # the rest was looked at


def test_a_folder_that_is_in_the_way(home):
    home.home.mkdir()
    (home.home / "cache").write_text("not a folder")
    assert f"Run: mv {home.home}/cache {home.home}/cache.old" in actions(doctor.examine())


def test_a_socket_folder_open_to_others(home):
    folder = home.places.folder
    folder.chmod(0o755)
    assert f"Run: chmod 700 '{folder}'" in actions(doctor.examine())
    folder.chmod(0o700)


def test_a_full_disk(home, monkeypatch):
    monkeypatch.setattr(doctor, "room", lambda folder: 1000)
    whats = [trouble.what for trouble in doctor.examine().troubles]
    assert sum("Little room" in what for what in whats) == 2


def settings(home, text):
    (home.home / "config").mkdir(parents=True)
    (home.home / "config/service.toml").write_text(text)


def test_a_bad_setting_is_told_and_the_rest_is_looked_at(home):
    settings(home, "threads = 'x'\n")
    report = doctor.examine()
    assert any("The setting threads in" in trouble.what for trouble in report.troubles)
    assert len(report.models) > 1


def test_the_model_of_the_settings_is_what_is_needed(home, tiny_model):
    settings(home, f"model = '{tiny_model('qwen2')}'\n")
    assert doctor.examine().troubles == []
    (home.home / "config/service.toml").write_text("model = '/no/such.gguf'\n")
    (trouble,) = doctor.examine().troubles
    assert trouble.what == "There is no model file /no/such.gguf."
    (home.home / "config/service.toml").write_text("model = 'smollm2-135m'\n")
    assert actions(doctor.examine()) == ["Run: hearth models pull smollm2-135m"]


def test_a_token_that_others_know_and_a_port_that_is_taken(home):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings(home, f"tcp_port = {taken.getsockname()[1]}\n")
        (home.home / "state").mkdir()
        token = home.home / "state/token"
        token.write_text("known")
        token.chmod(0o644)
        found = doctor.examine().troubles
    assert any(trouble.action.startswith(f"Run: rm -f '{token}'") for trouble in found)
    assert any("another program listens there" in trouble.what for trouble in found)


def test_the_cache_may_be_elsewhere(home, tmp_path):
    (tmp_path / "kv").write_text("in the way")
    settings(home, f"[cache]\nfolder = '{tmp_path}/kv'\n")
    report = doctor.examine()
    assert report.folders["kv cache"] == f"{tmp_path}/kv"
    assert f"Run: mv {tmp_path}/kv {tmp_path}/kv.old" in actions(report)


def test_a_running_daemon(home):
    daemon = home.start("--model", "good")
    report = doctor.examine()
    assert report.daemon["pid"] == daemon.pid
    assert len(report.troubles) == 1  # no model is here


def test_a_daemon_in_trouble(home, monkeypatch):
    home.start("--model", "good")
    state = service.read_state()
    disk = {"message": "The KV cache is not saved to the disk now: full."}
    failed = {"state": "failed", "message": "The model bad does not load. Choose another."}
    told = {"version": "0.0.1", "engine": state["engine"] | failed, "cache": state["cache"] | {"disk": disk}}
    monkeypatch.setattr(doctor.service, "read_state", lambda: state | told)
    troubles = {trouble.what: trouble.action for trouble in doctor.examine().troubles}
    installed = doctor.installed_version()
    assert "hearth stop" in troubles[f"The engine that runs is version 0.0.1; {installed} is installed."]
    assert f"The engine runs without a model. {failed['message']}" in troubles
    assert str(home.home / "cache/kv") in troubles[disk["message"]]


def test_a_lock_file_that_cannot_be_opened(home, tmp_path):
    (tmp_path / "elsewhere").touch()
    home.places.lock.symlink_to(tmp_path / "elsewhere")
    assert f"Run: rm -f '{home.places.lock}'" in actions(doctor.examine())


def test_what_cannot_be_looked_at_ends_nothing(home, monkeypatch):
    def refuse():
        raise PermissionError(13, "Permission denied", "/a/place")

    monkeypatch.setattr(doctor.service, "read_state", refuse)
    monkeypatch.setattr(doctor, "_EDITORS", {"nvim": ("Neovim", (0, 10))})
    monkeypatch.setattr(doctor.shutil, "which", lambda program: program)
    report = doctor.examine()
    assert any("/a/place" in trouble.what for trouble in report.troubles)
    assert report.editors


def test_a_hung_daemon_is_told_with_its_process(home, monkeypatch):
    daemon = home.start()
    monkeypatch.setattr(service, "ANSWER_SECONDS", 0.01)
    os.kill(daemon.pid, signal.SIGSTOP)
    assert f"Wait, or end it: kill -9 {daemon.pid}" in actions(doctor.examine())
    os.kill(daemon.pid, signal.SIGCONT)


def test_a_lock_whose_holder_left_no_word(home):
    with Lock(home.places.lock) as lock:
        assert lock.try_take()
        assert f"Wait, or end it: fuser -k '{home.places.lock}'" in actions(doctor.examine())


@pytest.mark.parametrize(
    ("program", "printed", "version", "old"),
    [
        ("nvim", "NVIM v0.9.5\nBuild type: Release\n", "0.9.5", True),
        ("nvim", "NVIM v0.11.2\n", "0.11.2", False),
        ("code", "1.99.3\nabc\nx64\n", "1.99.3", True),
        ("code", "1.104.0\nabc\nx64\n", "1.104.0", False),
        ("code-server", "4.104.1 abc with Code 1.104.1\n", "4.104.1", False),
        ("code", None, "version unknown", False),
    ],
)
def test_editors(home, monkeypatch, program, printed, version, old):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: name if name == program else None)
    monkeypatch.setattr(doctor, "run_tool", lambda command: printed)
    report = doctor.examine()
    assert list(report.editors.values()) == [version]
    assert any("too old" in trouble.what for trouble in report.troubles) == old


def test_graphics_processors_as_the_tool_or_the_driver_tells(monkeypatch, tmp_path):
    printed = "NVIDIA H200, 143771, 570.1\nNVIDIA Odd, [N/A], 570.1\n"
    monkeypatch.setattr(machine, "run_tool", lambda command: printed)
    assert machine.gpus() == (
        machine.Gpu("NVIDIA H200", 143771 << 20, "570.1"),
        machine.Gpu("NVIDIA Odd", 0, "570.1"),
    )
    monkeypatch.setattr(machine, "run_tool", lambda command: None)
    (tmp_path / "0000:01:00.0").mkdir()
    (tmp_path / "0000:01:00.0/information").write_text("Model: \t\t NVIDIA RTX\nIRQ: 1\n")
    assert machine.gpus(tmp_path) == (machine.Gpu("NVIDIA RTX"),)
    assert machine.gpus(tmp_path / "absent") == ()


def test_the_processor_and_memory(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n")
    assert machine.cpu_name(tmp_path / "cpuinfo") == "Some CPU @ 3 GHz"
    assert machine.cpu_name(tmp_path / "absent")
    (tmp_path / "meminfo").write_text("MemTotal:       1000 kB\n")
    assert machine.total_bytes(tmp_path / "meminfo") == 1_024_000
    assert machine.total_bytes(tmp_path / "absent") is None


def test_a_tool_that_fails_or_is_not_there_says_nothing():
    assert machine.run_tool(["/no/such/tool"]) is None
    assert machine.run_tool(["false"]) is None
    assert machine.run_tool(["echo", "hi"]) == "hi\n"


def test_the_socket_of_a_daemon_is_probed_without_harm(home):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.places.socket))
        assert service.read_state() is None
