"""Fixtures that every test may use."""

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from engine.client import in_process

ROOT = Path(__file__).parents[1]

pytest_plugins = ["tests.fixtures_models", "tests.fixtures_daemon", "tests.fixtures_remote"]


def _load(path: Path) -> ModuleType:
    # Test folders are no packages, so a helper module is loaded by its place.
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session", autouse=True)
def nothing_kept_on_disk() -> Iterator[None]:
    """Engines in the tests' own process write no KV pages among those of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_process, "open_disk_tier", lambda *_: None)
        yield


@pytest.fixture(scope="session")
def load_helper() -> Callable[[Path], ModuleType]:
    """load_helper(path): a helper module that lies beside the tests."""
    return _load


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> Callable[..., Path]:
    """tiny_model(arch, type="F32", **options): the path of a tiny random GGUF.

    See TinyModel in tiny_models.py for the options. Each model is written once a session: do not modify it.
    """
    tiny_models = _load(ROOT / "tests/tiny_models.py")
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
def tiny_encoder(tmp_path_factory) -> Callable[..., Path]:
    """tiny_encoder(**options): the path of a tiny random bert model; options of TinyEncoder."""
    tiny_encoders = _load(ROOT / "tests/tiny_encoders.py")
    folder = tmp_path_factory.mktemp("tiny_encoders")

    def make(**options: object) -> Path:
        path = folder / f"bert-{'-'.join(f'{name}={value}' for name, value in sorted(options.items()))}.gguf"
        if not path.exists():
            tiny_encoders.write(tiny_encoders.TinyEncoder(**options), path)
        return path

    return make


@pytest.fixture(scope="session")
def llama_cpp() -> Callable[..., AbstractContextManager[Any]]:
    """llama_cpp(path, n_ctx=512, pooling=""): the model in llama.cpp, as a context manager.

    For tests marked `oracle`; see llama_cpp_oracle.py.
    """
    oracle = _load(ROOT / "tests/llama_cpp_oracle.py")
    library = oracle.load_library(_llama_cpp_folder(oracle))
    return lambda *args, **options: closing(oracle.LlamaCpp(library, *args, **options))


def _llama_cpp_folder(oracle: ModuleType) -> Path:
    folder: Path | None = oracle.library_folder()
    if folder is None:
        pytest.skip("llama.cpp's library is not there; tests/llama_cpp_oracle.py says how to get it")
    return folder


@pytest.fixture(scope="session")
def llama_cpp_package(llama_cpp, tmp_path_factory) -> Iterator[None]:
    """The package llama-cpp-python can be imported; its library is the oracle's (see llama_cpp_package.py).

    Skips the test when it cannot be had, or fails it with HEARTH_REQUIRE_MODELS.
    """
    package = _load(ROOT / "tests/llama_cpp_package.py")
    libraries = _llama_cpp_folder(_load(ROOT / "tests/llama_cpp_oracle.py"))
    try:
        folder = package.fetch()
    except package.PackageError as error:
        message = f"llama-cpp-python cannot be fetched: {error}"
        if os.environ.get("HEARTH_REQUIRE_MODELS"):
            pytest.fail(message)
        pytest.skip(message)
    library = tmp_path_factory.mktemp("llama_cpp")
    package.link_library(libraries, library)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("LLAMA_CPP_LIB_PATH", str(library))
        yield


@pytest.fixture(scope="session")
def llama_cpp_logits(llama_cpp) -> Callable[..., np.ndarray]:
    """llama_cpp_logits(path, tokens, sequences=None, positions=None, chunk=0): float32 (n, vocabulary)."""

    def logits(path: Path, *args: object, **kwargs: object) -> np.ndarray:
        with llama_cpp(path) as model:
            return model.logits(*args, **kwargs)

    return logits


@pytest.fixture(scope="session")
def compile_cpp() -> Callable[..., Path]:
    """compile_cpp(sources, *flags): the path of a C++ program that may include headers of native/.

    sources: paths relative to the repository's root. The program is kept until something it may depend on
    changes: its sources, flags, or a header of native/.
    """
    folder = ROOT / "build" / "test_programs"
    folder.mkdir(parents=True, exist_ok=True)

    def compile_program(sources: list[str], *flags: str) -> Path:
        command = [
            os.environ.get("CXX", "c++"),
            "-std=c++20",
            "-Wall",
            "-Wextra",
            "-Werror",
            *flags,
            "-I",
            "native",
        ]
        inputs = [*(ROOT / source for source in sources), *sorted((ROOT / "native").rglob("*.h"))]
        digest = hashlib.sha256("\0".join([*command, *sources]).encode())
        for path in inputs:
            digest.update(path.read_bytes())
        program = folder / f"{Path(sources[0]).stem}-{digest.hexdigest()[:16]}"
        if not program.exists():
            built = program.with_suffix(f".{os.getpid()}")
            subprocess.run([*command, *sources, "-o", built], cwd=ROOT, check=True)
            built.replace(program)
        return program

    return compile_program
