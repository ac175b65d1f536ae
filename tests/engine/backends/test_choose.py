"""Which back end a model gets."""

import pytest

from engine.backends import choose
from engine.backends.choose import load_backend
from engine.backends.native import NativeBackend, open_gguf
from engine.errors import ModelFileError


class Named:
    """A file that says only its architecture."""

    path = "/models/big.gguf"

    def __init__(self, architecture):
        self.architecture = architecture

    def get(self, key):
        return self.architecture if key == "general.architecture" else None


def test_our_own_engine_runs_what_it_knows(tiny_model):
    backend = load_backend(open_gguf(tiny_model("llama")), threads=1, context_tokens=64)
    assert isinstance(backend, NativeBackend)
    assert backend.kernels != "llama.cpp"


def test_llama_cpp_runs_the_rest_where_it_is_installed(monkeypatch):
    made = {}
    monkeypatch.setattr(choose.llama_cpp, "installed", lambda: True)
    monkeypatch.setattr(
        choose.llama_cpp, "LlamaCppBackend", lambda path, **options: made | {"path": path} | options
    )
    backend = load_backend(Named("mamba2"), threads=3, context_tokens=99)
    assert (str(backend["path"]), backend["threads"], backend["context_tokens"]) == (
        "/models/big.gguf",
        3,
        99,
    )


def test_without_it_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setattr(choose.llama_cpp, "installed", lambda: False)
    with pytest.raises(
        ModelFileError, match=r"'mamba2'.*llama, qwen2, qwen3.*pip install 'hearth\[llama-cpp\]'"
    ):
        load_backend(Named("mamba2"), threads=None, context_tokens=None)
