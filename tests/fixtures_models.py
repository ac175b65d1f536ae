"""The fixture `real_model`: paths of real models for tests marked `model`.

A plugin, enabled once for all tests by `pytest_plugins = ["tests.fixtures_models"]` in tests/conftest.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import paths
from engine.client.models import resolve
from engine.errors import ModelFileError

_VARIABLES = (paths.HOME_VARIABLE, paths.MODEL_PATH_VARIABLE)


@pytest.fixture(scope="session")
def real_model() -> Callable[[str], Path]:
    """real_model(id): the whole, checked file of a catalogue model.

    Skips the test when the model is not on this machine; with HEARTH_REQUIRE_MODELS set, fails it.
    The folders are those of the session's start, whatever a test sets for itself.
    """
    at_start = {name: os.environ.get(name) for name in _VARIABLES}

    def path_of(name: str) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in at_start.items():
                if value is None:
                    patch.delenv(variable, raising=False)
                else:
                    patch.setenv(variable, value)
            try:
                return resolve(name)
            except ModelFileError as error:
                if os.environ.get("HEARTH_REQUIRE_MODELS"):
                    pytest.fail(str(error))
                pytest.skip(str(error))

    return path_of
