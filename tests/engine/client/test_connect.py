"""Which model an editor gets that names none, or a file."""

import pytest

from engine import paths
from engine.catalogue.entries import DEFAULT_MODEL
from engine.client.connect import connect
from engine.client.remote import RemoteEngine
from engine.errors import SettingsError
from engine.service.settings import settings_file


@pytest.fixture(autouse=True)
def loaded(tmp_path, monkeypatch):
    """The models that were to be loaded; no daemon runs."""
    monkeypatch.setenv(paths.HOME_VARIABLE, str(tmp_path))
    models = []

    async def load(engine, threads=0):
        models.append((engine._model, threads))

    monkeypatch.setattr(RemoteEngine, "load", load)
    return models


def write_settings(text):
    settings_file().parent.mkdir(parents=True, exist_ok=True)
    settings_file().write_text(text)


async def test_without_a_name_it_is_the_services_default(loaded):
    await connect()
    write_settings('model = "qwen2.5-coder-1.5b"\n')
    await connect(threads=2)
    await connect("smollm2-135m")
    assert loaded == [(DEFAULT_MODEL, 0), ("qwen2.5-coder-1.5b", 2), ("smollm2-135m", 0)]


async def test_a_file_is_named_as_the_daemon_sees_it(loaded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    await connect("mine.gguf")
    await connect("./models/mine")
    assert loaded == [(str(tmp_path / name), 0) for name in ("mine.gguf", "models/mine")]


async def test_wrong_settings_are_told(loaded):
    write_settings("modell = 1\n")
    with pytest.raises(SettingsError, match="modell"):
        await connect()
    assert loaded == []
