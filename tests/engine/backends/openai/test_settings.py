"""A `[[remote]]` of service.toml: what is taken, and words for what is not; keys and addresses."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.backends.openai.addresses import checked_url
from engine.backends.openai.key import checked_reference, read_key
from engine.backends.openai.settings import RemoteSettings
from engine.errors import SettingsError
from engine.service.settings import read_settings, settings_file

GOOD = """
[[remote]]
name = "team"
url = "https://gpu.example:8000/v1"
models = { near = "Qwen/Qwen2.5-Coder-32B" }
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setenv("HEARTH_HOME", str(tmp_path / "h"))
    settings_file().parent.mkdir(parents=True)
    return settings_file().write_text


def test_the_shortest_remote(write):
    write(GOOD)
    (remote,) = read_settings({}).remote
    assert remote.url == ["https://gpu.example:8000"]
    assert (remote.models["near"].name, remote.models["near"].fim) == ("Qwen/Qwen2.5-Coder-32B", "auto")
    assert read_settings({}).remote_model is None
    assert read_settings({"model": "near"}).remote_model == remote


def test_everything_that_can_be_said(write, tmp_path):
    (tmp_path / "ca.pem").touch()
    write(f"""
model = "near"

[[remote]]
name = "team"
url = ["http://10.0.0.5:8000", "http://gpu2.lan:8000", "http://[fd00::1]"]
plain_http = ["10.0.0.5", "GPU2.lan", "fd00::1"]
server = "sglang"
key = "keyring:hearth/team"
fallback = "qwen2.5-coder-1.5b"
ca_file = "{tmp_path}/ca.pem"
connect_seconds = 2
read_seconds = 30.5
retries = 0
prompt_tokens = 4096

[remote.models]
near = {{ name = "big", fim = "qwen-coder" }}
talk = "chat"

[[remote]]
name = "other"
url = "http://127.0.0.1:8000"
models = {{ third = "x" }}
""")
    settings = read_settings({})
    first, second = settings.remote
    assert first.url == ["http://10.0.0.5:8000", "http://gpu2.lan:8000", "http://[fd00::1]"]
    assert (first.connect_seconds, first.read_seconds, first.models["talk"].name) == (2.0, 30.5, "chat")
    assert second.name == "other"
    assert settings.remote_model == first


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ('key = "sk-1234"', "remote[0].key"),
        ('key = "env:"', "the key itself has no place here"),
        ('url = "http://gpu.example"', "remote[0].url"),
        ('url = "http://gpu.example"', "unencrypted"),
        ('url = "ftp://gpu.example"', "https://gpu.example:8000"),
        ('url = "https://user:pw@gpu.example"', "must not hold a name or password"),
        ("url = []", "remote[0].url"),
        ("url = 3", "remote[0].url"),
        ('plain_http = ["8.8.8.8"]', "remote[0].plain_http[0]"),
        ('plain_http = ["gpu.example.com"]', "not a private address"),
        ('server = "tgi"', "remote[0].server"),
        ("models = {}", "remote[0].models"),
        ('models = { "a/b" = "x" }', "remote[0].models"),
        ('models = { near = { name = "x", fim = "codellama" } }', "remote[0].models.near.fim"),
        ('models = { near = { nam = "x" } }', "remote[0].models.near"),
        ('fallback = "near"', "must be a model of this machine"),
        ('ca_file = "/nowhere/ca.pem"', "remote[0].ca_file"),
        ("retries = -1", "remote[0].retries"),
        ("read_seconds = 0", "remote[0].read_seconds"),
        ("read_seconds = nan", "remote[0].read_seconds"),
        ("token = 3", "remote[0].token"),
        ('name = "a b"', "remote[0].name"),
    ],
)
def test_a_bad_entry_is_told_with_its_place(write, change, told):
    name = change.partition(" ")[0]
    lines = [line for line in GOOD.splitlines() if not line.startswith(f"{name} ")]
    write("\n".join([*lines, change]))
    with pytest.raises(SettingsError) as caught:
        read_settings({})
    assert told in caught.value.what
    assert str(settings_file()) in caught.value.what
    assert not any(secret in str(caught.value) for secret in ("sk-1234", "pw@"))


@pytest.mark.parametrize("again", [GOOD, GOOD.replace('"team"', '"other"')])
def test_two_remotes_do_not_share_names(write, again):
    write(GOOD + again)
    with pytest.raises(SettingsError, match="is there twice"):
        read_settings({})


def test_the_settings_never_hold_the_key(monkeypatch):
    monkeypatch.setenv("TEAM_KEY", "sk-secret")
    remote = RemoteSettings(name="t", url="https://x", models={"a": "b"}, key="env:TEAM_KEY")
    assert "sk-secret" not in repr(remote) + remote.model_dump_json()


@pytest.mark.parametrize("key", ["", "two words", "line\nend", "\u00fcber", "x" * 5000])
def test_a_key_that_is_none_is_told_without_it(monkeypatch, key):
    monkeypatch.setenv("TEAM_KEY", key)
    with pytest.raises(SettingsError, match=r"TEAM_KEY|characters") as caught:
        read_key("env:TEAM_KEY", "team")
    assert not key or key not in str(caught.value)


@pytest.fixture
def keyring(monkeypatch):
    """A stand-in for the optional package."""
    module, errors = ModuleType("keyring"), ModuleType("keyring.errors")
    errors.KeyringError = type("KeyringError", (Exception,), {})
    module.kept = {("hearth", "team/a"): "sk-kept"}
    module.get_password = lambda service, user: module.kept.get((service, user))
    monkeypatch.setitem(sys.modules, "keyring", module)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    return module


def test_a_key_of_the_keyring(keyring):
    assert read_key("keyring:hearth/team/a", "team") == "sk-kept"
    with pytest.raises(SettingsError, match="is empty") as caught:
        read_key("keyring:hearth/other", "team")
    assert "keyring set 'hearth' 'other'" in caught.value.action


def test_a_locked_keyring_is_told(keyring):
    def locked(service, user):
        raise sys.modules["keyring.errors"].KeyringError("secret details")

    keyring.get_password = locked
    with pytest.raises(SettingsError, match="does not give the key") as caught:
        read_key("keyring:hearth/team", "team")
    assert "secret" not in str(caught.value)


def test_without_the_package_its_fix_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(SettingsError) as caught:
        read_key("keyring:hearth/team", "team")
    assert "hearth[keyring]" in caught.value.action


@given(st.text(max_size=40))
def test_what_may_be_the_key_itself_is_refused_and_not_quoted(text):
    if text.startswith(("env:", "keyring:")):
        return
    with pytest.raises(ValueError) as caught:
        checked_reference(text)
    assert len(text) < 4 or text not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("https://gpu.example", "https://gpu.example"),
        ("https://GPU.example:443/", "https://gpu.example:443"),
        ("https://gpu.example/team/v1/", "https://gpu.example/team"),
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://127.0.0.2:1", "http://127.0.0.2:1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
    ],
)
def test_addresses(url, root):
    assert checked_url(url, ()) == root


@pytest.mark.parametrize(
    "url",
    [
        "",
        "gpu.example",
        "//gpu.example",
        "https://",
        "https://x:99999",
        "https://[::1",
        "https://x/?a=b",
        "https://x/#a",
        "https://x /",
        "https://x\\@y",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "http://0x7f000001.example",
        "file:///etc/passwd",
    ],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ValueError):
        checked_url(url, ())


def test_strict_types():
    with pytest.raises(ValidationError):
        RemoteSettings.model_validate({"name": "t", "url": "https://x", "models": {"a": "b"}, "retries": "2"})


@pytest.mark.parametrize("page", ["service.md", "team.md"])
def test_the_documented_remotes_are_settings(write, page):
    text = (Path(__file__).parents[4] / "docs" / page).read_text()
    (example,) = [
        block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[[remote]]" in block
    ]
    write("".join(line for line in example.splitlines(True) if not line.startswith("ca_file")))
    (remote,) = read_settings({}).remote
    assert remote.models["team-coder"].name == "qwen3-coder"
    if page == "service.md":  # where every setting is
        assert RemoteSettings.model_fields.keys() - remote.model_fields_set == {"ca_file"}
