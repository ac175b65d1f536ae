"""Fixtures that every test may use."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest


def _load(name: str):
    # Test folders are no packages, so a helper module is loaded by its place.
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> Callable[..., Path]:
    """tiny_model(arch, type="F32", **options): the path of a tiny random GGUF.

    See TinyModel in tiny_models.py for the options. Each model is written once a session: do not modify it.
    """
    tiny_models = _load("tiny_models")
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


@pytest.fixture(scope="session")
def llama_cpp_logits() -> Callable[..., np.ndarray]:
    """llama_cpp_logits(path, tokens, sequences=None, positions=None, chunk=0): float32 (n, vocabulary).

    For tests marked `oracle`; see llama_cpp_oracle.py.
    """
    oracle = _load("llama_cpp_oracle")
    folder = oracle.library_folder()
    if folder is None:
        pytest.skip("llama.cpp's library is not there; tests/llama_cpp_oracle.py says how to get it")
    library = oracle.load_library(folder)

    def logits(path: Path, *args: object, **kwargs: object) -> np.ndarray:
        model = oracle.LlamaCpp(library, path)
        try:
            return model.logits(*args, **kwargs)
        finally:
            model.close()

    return logits
