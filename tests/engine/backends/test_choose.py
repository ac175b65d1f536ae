"""Which back end a model gets."""

import pytest

from engine.backends import choose
from engine.backends.choose import is_encoder, load_backend, load_encoder
from engine.backends.native import NativeBackend, open_gguf
from engine.backends.pooling import Pooling
from engine.errors import ModelFileError


class Named:
    """A file that says only its architecture, and whether its attention is causal."""

    path = "/models/big.gguf"

    def __init__(self, architecture, causal=None):
        self.fields = {"general.architecture": architecture, f"{architecture}.attention.causal": causal}

    def get(self, key):
        return self.fields.get(key)


def test_our_own_engine_runs_what_it_knows(tiny_model):
    backend = load_backend(open_gguf(tiny_model("llama")), threads=1, context_tokens=64)
    assert isinstance(backend, NativeBackend)
    assert backend.kernels != "llama.cpp"


def test_llama_cpp_runs_the_rest_where_it_is_installed(monkeypatch):
    made = {}
    monkeypatch.setattr(choose.llama_cpp, "installed", lambda: True)
    monkeypatch.setattr(
        choose.llama_cpp,
        "LlamaCppBackend",
        lambda path, pooling, **options: made | {"path": path, "pooling": pooling} | options,
    )
    backend = load_backend(Named("mamba2"), threads=3, context_tokens=99)
    assert (str(backend["path"]), backend["threads"], backend["context_tokens"]) == (
        "/models/big.gguf",
        3,
        99,
    )
    assert backend["pooling"] is Pooling.MEAN


def test_without_it_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setattr(choose.llama_cpp, "installed", lambda: False)
    with pytest.raises(
        ModelFileError, match=r"'mamba2'.*llama, qwen2, qwen3.*pip install 'hearth\[llama-cpp\]'"
    ):
        load_backend(Named("mamba2"), threads=None, context_tokens=None)


@pytest.mark.parametrize(
    ("file", "encodes"),
    [
        (Named("bert"), True),
        (Named("nomic-bert-moe"), True),
        (Named("qwen2", causal=False), True),
        (Named("qwen2"), False),
        (Named("qwen3", causal=True), False),
        (Named("mamba2"), False),
    ],
)
def test_which_files_make_vectors_alone(monkeypatch, file, encodes):
    assert is_encoder(file) is encodes
    if encodes:
        monkeypatch.setattr(choose.llama_cpp, "installed", lambda: True)
        with pytest.raises(ModelFileError, match=r"big\.gguf is an embedding model; it writes no text"):
            load_backend(file, threads=None, context_tokens=None)


def test_an_encoder_without_llama_cpp_says_what_to_do(monkeypatch, tiny_encoder):
    monkeypatch.setattr(choose.llama_cpp, "installed", lambda: False)
    with pytest.raises(ModelFileError, match=r"embedding model .* pip install 'hearth\[llama-cpp\]'"):
        load_encoder(tiny_encoder(), threads=None, context_tokens=None)


def test_a_reranker_makes_no_vectors(monkeypatch, tiny_encoder):
    monkeypatch.setattr(choose.llama_cpp, "installed", lambda: True)
    with pytest.raises(ModelFileError, match="no vectors"):
        load_encoder(tiny_encoder(pooling=4), threads=None, context_tokens=None)


@pytest.mark.parametrize(("given", "used"), [(None, Pooling.MEAN), (2, Pooling.CLS), (3, Pooling.LAST)])
def test_an_encoder_pools_as_its_file_says(monkeypatch, tiny_encoder, given, used):
    made = []
    monkeypatch.setattr(choose.llama_cpp, "installed", lambda: True)
    monkeypatch.setattr(
        choose.llama_cpp_encoder, "LlamaCppEncoder", lambda path, pooling, **options: made.append(pooling)
    )
    load_encoder(tiny_encoder(pooling=given), threads=1, context_tokens=None)
    assert made == [used]
