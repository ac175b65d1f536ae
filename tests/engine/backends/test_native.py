"""Loading errors become words; the extension itself has its own tests."""

import sys

import numpy as np
import pytest

from engine.backends import native
from engine.errors import EngineUnavailable, ModelFileError


class GgufError(ValueError):
    pass


VALUES = {
    "general.architecture": "qwen2",
    "general.name": "Tiny",
    "qwen2.embedding_length": 896,
    "qwen2.attention.head_count": 14,
    "qwen2.attention.head_count_kv": 2,
}


class FakeGguf:
    path = __file__  # any file has a size

    def get(self, key):
        return VALUES.get(key)


class FakeExtension:
    """Stands for engine._native."""

    GgufError = GgufError

    def __init__(self):
        self.engines = []
        extension = self

        class Model:
            n_layers, n_context_train, n_vocab, isa = 24, 32768, 100, "avx2"

            def __init__(self, gguf, cancelled):
                pass

        class Engine:
            page_tokens, page_bytes, kv_format, free_tokens = 64, 1024, "f16", 640

            def __init__(self, model, *, kv_tokens, threads):
                extension.engines.append((kv_tokens, threads))
                self.cancelled = False

            def forward(self, seqs, tokens, want_logits):
                raise extension.failure

            def cancel(self):
                extension.cancelled = True

        self.Model, self.Engine = Model, Engine


@pytest.fixture
def extension(monkeypatch):
    extension = FakeExtension()
    monkeypatch.setattr(native, "import_module", lambda name: extension)
    return extension


def test_sizes_follow_the_model_and_the_memory_set_aside(extension):
    backend = native.NativeBackend(FakeGguf(), threads=3)
    assert (backend.name, backend.kernels, backend.threads, backend.n_vocab) == ("Tiny", "avx2", 3, 100)
    assert backend.context_tokens == native.DEFAULT_CONTEXT
    assert extension.engines == [(4 * native.DEFAULT_CONTEXT, 3)]
    assert backend.kv_tokens * 2 * 24 * 2 * 64 * 2 <= native.KV_BYTES


@pytest.mark.parametrize(
    ("asked", "context", "kv_tokens"), [(100, 100, 448), (10**6, 32768, 43648), (20000, 20000, 43648)]
)
def test_context_is_limited_by_training_and_memory(extension, asked, context, kv_tokens):
    backend = native.NativeBackend(FakeGguf(), threads=1, context_tokens=asked)
    assert (backend.context_tokens, backend.kv_tokens) == (context, kv_tokens)


def test_an_unsupported_model_is_told_with_its_file(extension):
    def refuse(gguf, cancelled):
        raise GgufError("architecture 'x' is not one that this engine runs")

    extension.Model = refuse
    with pytest.raises(ModelFileError, match=r"test_native\.py cannot run: architecture 'x'") as error:
        native.NativeBackend(FakeGguf())
    assert error.value.action


def test_short_memory_is_told(extension, tmp_path):
    path = tmp_path / "big.gguf"
    path.write_bytes(bytes(10))
    gguf = FakeGguf()
    gguf.path = str(path)

    def refuse(*args, **kwargs):
        raise MemoryError

    extension.Engine = refuse
    with pytest.raises(EngineUnavailable, match=r"not enough free memory for big\.gguf"):
        native.NativeBackend(gguf)


@pytest.mark.parametrize("failure", [InterruptedError(), MemoryError()])
def test_what_the_loop_handles_passes_through(extension, failure):
    backend = native.NativeBackend(FakeGguf(), threads=1)
    extension.failure = failure
    with pytest.raises(type(failure)):
        backend.forward(np.zeros(1, np.int32), np.zeros(1, np.int32), np.ones(1, np.bool_))


def test_what_it_cannot_handle_becomes_words(extension):
    backend = native.NativeBackend(FakeGguf(), threads=1)
    extension.failure = ValueError("token 7 is not in the vocabulary")
    with pytest.raises(EngineUnavailable, match="token 7"):
        backend.forward(np.zeros(1, np.int32), np.zeros(1, np.int32), np.ones(1, np.bool_))


def test_cancel_is_harmless_after_close(extension):
    backend = native.NativeBackend(FakeGguf(), threads=1)
    backend.cancel()
    assert extension.cancelled
    backend.close()
    backend.cancel()
    with pytest.raises(EngineUnavailable, match="closed"):
        backend.new_sequence()


def test_a_missing_extension_is_told(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "engine._native", None)
    with pytest.raises(EngineUnavailable, match="native engine is not usable"):
        native.open_gguf(tmp_path / "any.gguf")


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be opened"), (b"", "is not a model file"), (b"GGUF" + bytes(4), "is not a model file")],
)
def test_unreadable_files_are_told_with_their_name(tmp_path, content, message):
    pytest.importorskip("engine._native", reason="the native extension is not built")
    path = tmp_path / "broken.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as error:
        native.open_gguf(path)
    assert "broken.gguf" in str(error.value)
