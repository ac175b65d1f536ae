"""Our own engine: GGUF files on this machine's processor, through the extension `engine._native`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.backends.cpu import default_threads
from engine.backends.memory import available_bytes
from engine.backends.pooling import Pooling, read_pooling
from engine.errors import EngineUnavailable, ModelFileError

if TYPE_CHECKING:
    from engine._native import Engine, GgufFile

DEFAULT_CONTEXT = 8192

# Room for several sequences, within a fixed share of memory: pages are touched only when used.
KV_BYTES = 512 << 20
KV_CONTEXTS = 4
KV_VALUE_BYTES = 2  # F16
KV_PAGE = 64

_ANOTHER_MODEL = "Choose another model, or fetch this one again and verify it."


def architectures() -> list[str]:
    """Values of general.architecture that the extension runs. Raises EngineUnavailable when it is missing."""
    names: list[str] = _extension().architectures()
    return names


def open_gguf(path: Path) -> GgufFile:
    """Map a model file. Raises ModelFileError, or EngineUnavailable when the extension is missing."""
    native = _extension()
    try:
        gguf: GgufFile = native.GgufFile(str(path))
        return gguf
    except native.GgufError as error:
        raise ModelFileError(
            f"{path.name} is not a model file that can be used: {error}", action=_ANOTHER_MODEL
        ) from error
    except OSError as error:
        refused = isinstance(error, PermissionError)
        raise ModelFileError(
            f"The model file {path} cannot be opened: {os.strerror(error.errno or 0)}.",
            action=f"Run: chmod u+r {shlex.quote(str(path))}" if refused else "Check that the path exists.",
        ) from error


class NativeBackend:
    """Implements `engine.backends.base.Backend`, `KvPages` and `HiddenStates`.

    threads: None takes one for each physical core.
    context_tokens: the longest sequence; None takes DEFAULT_CONTEXT, and both are limited by the model and
        by the memory set aside for the KV cache.
    cancelled: asked now and then while the weights are read; InterruptedError when it says so.
    Raises ModelFileError when the model cannot run, EngineUnavailable when memory is short.
    """

    def __init__(
        self,
        gguf: GgufFile,
        *,
        threads: int | None = None,
        context_tokens: int | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        native = _extension()
        path = Path(gguf.path)
        _check_memory(path)
        self.name = _name(gguf)
        self.threads = threads if threads is not None else default_threads()
        try:
            model = native.Model(gguf, cancelled=cancelled)
            per_token = kv_bytes_per_token(gguf, model.n_layers)
            self.context_tokens, self.kv_tokens = window(per_token, model.n_context_train, context_tokens)
            self._engine: Engine | None = native.Engine(model, kv_tokens=self.kv_tokens, threads=self.threads)
        except native.GgufError as error:
            raise ModelFileError(f"{path.name} cannot run: {error}", action=_ANOTHER_MODEL) from error
        except MemoryError as error:
            raise _too_large(path) from error
        self.kernels = model.isa
        self.page_tokens = self._engine.page_tokens
        self.page_bytes = self._engine.page_bytes
        self.kv_format = self._engine.kv_format
        self.n_vocab = model.n_vocab
        pooling = read_pooling(gguf)
        self.pooling = pooling or Pooling.MEAN
        self.hidden_states = self if pooling is not None else None

    @property
    def free_tokens(self) -> int:
        return self._running().free_tokens

    @property
    def kv_pages(self) -> NativeBackend:
        return self

    def read_pages(self, seq: int, first_page: int, count: int) -> NDArray[np.uint8]:
        return self._running().read_pages(seq, first_page, count)

    def append_pages(self, seq: int, pages: NDArray[np.uint8]) -> None:
        self._running().append_pages(seq, pages)

    def new_sequence(self) -> int:
        return self._running().new_sequence()

    def free_sequence(self, seq: int) -> None:
        self._running().free_sequence(seq)

    def fork_sequence(self, seq: int, length: int) -> int:
        return self._running().fork_sequence(seq, length)

    def truncate(self, seq: int, length: int) -> None:
        self._running().truncate(seq, length)

    def forward(
        self, seqs: NDArray[np.int32], tokens: NDArray[np.int32], want_logits: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        with self._in_words():
            return self._running().forward(seqs, tokens, want_logits)

    def forward_hidden(
        self,
        seqs: NDArray[np.int32],
        tokens: NDArray[np.int32],
        want_logits: NDArray[np.bool_],
        want_hidden: NDArray[np.bool_],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        with self._in_words():
            return self._running().forward_hidden(seqs, tokens, want_logits, want_hidden)

    def cancel(self) -> None:
        engine = self._engine
        if engine is not None:
            engine.cancel()

    def close(self) -> None:
        self._engine = None

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, RuntimeError) as error:
            raise EngineUnavailable(
                f"{self.name} stopped in the middle of a step: {error}.",
                meaning="There will be no suggestions until the engine is started again.",
                action="Restart the language server; if it happens again, report it with the log.",
            ) from error

    def _running(self) -> Engine:
        if self._engine is None:
            raise EngineUnavailable(f"{self.name} was closed.")
        return self._engine


def _extension() -> ModuleType:
    try:
        return import_module("engine._native")
    except ImportError as error:
        raise EngineUnavailable(
            f"The native engine is not usable: {error}.",
            meaning="No model can run.",
            action="Build and install Hearth again; see CONTRIBUTING.md.",
        ) from error


def _check_memory(path: Path) -> None:
    """Repacked weights take as much memory as the file. Raises EngineUnavailable when that is not there."""
    free = available_bytes()
    if free is not None and path.stat().st_size > free:
        raise _too_large(path, free)


def _too_large(path: Path, free: int | None = None) -> EngineUnavailable:
    have = "" if free is None else f"; {free / 1e9:.1f} GB are free"
    return EngineUnavailable(
        f"There is not enough free memory for {path.name} ({path.stat().st_size / 1e9:.1f} GB{have}).",
        action="Close other programs or choose a smaller model.",
    )


def _name(gguf: GgufFile) -> str:
    """The model's name as its file gives it, else the file's own."""
    name = gguf.get("general.name")
    return name if isinstance(name, str) and name else Path(gguf.path).stem


def kv_bytes_per_token(gguf: GgufFile, n_layers: int) -> int:
    """Memory of one token's keys and values in all layers, as F16."""
    architecture = gguf.get("general.architecture")

    def number(key: str, default: int) -> int:
        value = gguf.get(f"{architecture}.{key}")
        return value if isinstance(value, int) and value > 0 else default

    heads = number("attention.head_count", 1)
    kv_heads = number("attention.head_count_kv", heads)
    head = number("attention.key_length", number("embedding_length", 1) // heads)
    return max(1, 2 * n_layers * kv_heads * head * KV_VALUE_BYTES)


def window(kv_bytes: int, trained: int, asked: int | None) -> tuple[int, int]:
    """The longest sequence, and the capacity of the KV cache, in tokens.

    kv_bytes: of one token. trained: the longest sequence that the model knows.
    asked: None takes DEFAULT_CONTEXT.
    """
    most = max(1, KV_BYTES // (KV_PAGE * kv_bytes)) * KV_PAGE
    context = min(asked or DEFAULT_CONTEXT, trained, most)
    return context, min(_whole_pages(KV_CONTEXTS * context), most)


def _whole_pages(tokens: int) -> int:
    return -(-tokens // KV_PAGE) * KV_PAGE
