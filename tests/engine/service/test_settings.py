"""The daemon's settings and its token: files that the user may get wrong."""

import pytest

from engine.errors import SettingsError
from engine.service.settings import ServiceSettings, read_settings, settings_file
from engine.service.token import read_or_make_token, token_file


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
    ],
)
def test_a_bad_entry_is_told_with_its_file(text, told):
    settings_file().write_text(text)
    with pytest.raises(SettingsError, match=told) as caught:
        read_settings({})
    assert str(settings_file()) in caught.value.what


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
