"""The daemon's settings and its token: files that the user may get wrong."""

from pathlib import Path

import pytest

from engine.errors import SettingsError
from engine.service.settings import ServiceSettings, read_settings, settings_file
from engine.service.token import read_or_make_token, token_file
from engine.types import SamplingParams


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HEARTH_HOME", str(tmp_path / "h"))
    settings_file().parent.mkdir(parents=True)


def test_without_a_file_the_defaults_hold():
    assert read_settings({}) == ServiceSettings()


def test_the_command_line_wins_over_the_file():
    settings_file().write_text('model = "a"\nidle_minutes = 1.5\nthreads = 3\n')
    settings = read_settings({"model": "b", "threads": None, "tcp_port": 0})
    assert (settings.model, settings.threads, settings.idle_minutes, settings.tcp_port) == ("b", 3, 1.5, 0)


def test_whole_numbers_of_minutes_are_fine():
    settings_file().write_text("idle_minutes = 0\n")
    assert read_settings({}).idle_minutes == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("idle_minutes = -1", "idle_minutes"),
        ("idle_minutes = nan", "idle_minutes"),
        ("idle_minutes = inf", "idle_minutes"),
        ('threads = "4"', "threads"),
        ("threads = 4.0", "threads"),
        ("threads = true", "threads"),
        ("tcp_port = 65536", "tcp_port"),
        ("model = ''", "model"),
        ("log_level = 'loud'", "log_level"),
        ("idle = 3", "idle"),
        ("idle_minutes = ", "cannot be read"),
        ("\x00", "cannot be read"),
        ("max_requests = 0", "max_requests"),
        ("http = 3", "http"),
        ("[http]\nport = 3", "http.port"),
        ("[http]\nallowed_hosts = 'box.lan'", "http.allowed_hosts"),
        ("[http]\nallowed_hosts = ['http://box.lan']", "http.allowed_hosts"),
        ("[http]\nallowed_hosts = ['*']", "http.allowed_hosts"),
        ("[http]\nallowed_hosts = ['Box']", "http.allowed_hosts"),
        ("[http]\nallowed_origins = ['*']", "http.allowed_origins"),
        ("[http]\nallowed_origins = ['null']", "http.allowed_origins"),
        ("[http]\nallowed_origins = ['http://localhost:3000/']", "http.allowed_origins"),
        ("[http]\nallowed_origins = ['http://*.lan']", "http.allowed_origins"),
        ("[http]\nbody_mib = 0", "http.body_mib"),
        ("[http]\nbody_seconds = 0", "http.body_seconds"),
        ("[http]\nhead_seconds = inf", "http.head_seconds"),
        ("[http]\nrequest_seconds = -1", "http.request_seconds"),
        ("[sampling]\ntemperature = -1", "sampling.temperature"),
        ("[sampling]\ntemperature = nan", "sampling.temperature"),
        ("[sampling]\ntop_p = 0", "sampling.top_p"),
        ("[sampling]\ntop_k = 1.5", "sampling.top_k"),
        ("[sampling]\nmin_p = 2", "sampling.min_p"),
        ("[sampling]\nrepetition_penalty = 0", "sampling.repetition_penalty"),
        ("[sampling]\nseed = 1", "sampling.seed"),
        ("[cache]\ndisk_gib = -1", "cache.disk_gib"),
        ("[cache]\nfolder = 'here'", "cache.folder"),
    ],
)
def test_a_bad_entry_is_told_with_its_file(text, told):
    settings_file().write_text(text)
    with pytest.raises(SettingsError, match=told) as caught:
        read_settings({})
    assert str(settings_file()) in caught.value.what


def test_a_bad_entry_of_a_table_is_told_with_those_that_there_are():
    settings_file().write_text("[cache]\ngib = 3\n")
    with pytest.raises(SettingsError, match="there is no such setting") as caught:
        read_settings({})
    assert "Known of [cache] are disk_gib, folder;" in caught.value.action


def test_every_table_is_read():
    settings_file().write_text(
        """
max_requests = 8
[http]
allowed_hosts = ["box.lan", "box.lan:8080", "192.168.1.2"]
allowed_origins = ["http://localhost:3000", "app://obsidian.md", "http://[::1]:80"]
body_mib = 1
body_seconds = 5
head_seconds = 0.5
[sampling]
temperature = 1
top_k = 40
top_p = 0.95
min_p = 0
repetition_penalty = 1.1
[cache]
disk_gib = 1
folder = "~/kv"
"""
    )
    settings = read_settings({})
    assert settings.max_requests == 8
    assert settings.http.allowed_hosts == ("box.lan", "box.lan:8080", "192.168.1.2")
    assert settings.http.allowed_origins == ("http://localhost:3000", "app://obsidian.md", "http://[::1]:80")
    assert (settings.http.body_mib, settings.http.body_seconds, settings.http.head_seconds) == (1, 5.0, 0.5)
    assert settings.sampling.model_dump() == {
        "temperature": 1.0,
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.0,
        "repetition_penalty": 1.1,
    }
    assert (settings.cache.disk_gib, settings.cache.folder) == (1.0, "~/kv")


def test_the_defaults_of_sampling_are_the_engines():
    assert SamplingParams(**ServiceSettings().sampling.model_dump()) == SamplingParams()


def test_the_documents_example_is_the_defaults_but_for_what_it_must_choose(tmp_path):
    text = (Path(__file__).parents[3] / "docs/service.md").read_text()
    settings_file().write_text(text.partition("```toml\n")[2].partition("```")[0])
    assert read_settings({}) == ServiceSettings(tcp_port=8080)


def test_bytes_that_are_no_text_are_told():
    settings_file().write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="cannot be read"):
        read_settings({})


def test_a_bad_option_is_told_as_such():
    with pytest.raises(SettingsError, match="threads on the command line"):
        read_settings({"threads": -1})


def test_the_token_is_made_once_for_the_user_alone():
    token = read_or_make_token()
    assert len(token) >= 40
    assert read_or_make_token() == token
    assert token_file().stat().st_mode & 0o777 == 0o600


def test_an_empty_token_file_gets_a_token():
    token_file().touch(mode=0o600)
    assert len(read_or_make_token()) >= 40


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o604])
def test_a_token_that_others_know_is_refused_with_its_fix(mode):
    read_or_make_token()
    token_file().chmod(mode)
    with pytest.raises(SettingsError) as caught:
        read_or_make_token()
    assert f"rm -f '{token_file()}'" in caught.value.action


def test_a_link_in_the_token_s_place_is_refused(tmp_path):
    (tmp_path / "elsewhere").write_text("known to others")
    token_file().symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match="cannot be read or made"):
        read_or_make_token()
