"""Fixtures that every test may use."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


def _load_tiny_models():
    # Test folders are no packages, so a helper module is loaded by its place.
    spec = importlib.util.spec_from_file_location("tiny_models", Path(__file__).with_name("tiny_models.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> Callable[..., Path]:
    """tiny_model(arch, type="F32", **options): the path of a tiny random GGUF.

    See TinyModel in tiny_models.py for the options. Each model is written once a session: do not modify it.
    """
    tiny_models = _load_tiny_models()
    folder = tmp_path_factory.mktemp("tiny_models")
    written: dict[object, Path] = {}

    def make(arch: str, type: str = "F32", **options: object) -> Path:
        model = tiny_models.TinyModel(arch, type, **options)
        if model not in written:
            path = folder / f"{len(written)}-{arch}-{type.lower()}.gguf"
            tiny_models.write(model, path)
            written[model] = path
        return written[model]

    return make
