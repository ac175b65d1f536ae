"""llama.cpp as a back end, through the optional package llama-cpp-python: for architectures that ours lacks.

It answers the same interface with less: llama.cpp's kernels round differently from batch to batch, so a
token's logits may depend in their last bits on what ran beside it. The status names it, so that nobody takes
its speed or its bits for ours.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.cpu import default_threads
from engine.backends.pooling import Pooling
from engine.errors import EngineUnavailable, ModelFileError

DEFAULT_CONTEXT = 8192
KV_CONTEXTS = 2
MAX_SEQUENCES = 64
MAX_BATCH = 2048  # rows of one forward; the generation loop sends a chunk of 512 and a row a sequence

# llama_decode's answers (llama.h).
_NO_ROOM = 1
_ABORTED = 2


def installed() -> bool:
    """Whether llama-cpp-python is there; nothing is imported."""
    return find_spec("llama_cpp") is not None


class LlamaCppBackend:
    """Implements `engine.backends.base.Backend` and `HiddenStates`, but for the promise that bits never
    depend on the batch.

    pooling: how the file makes vectors of texts; None for not at all.
    threads: None takes one for each physical core.
    context_tokens: the longest sequence; None takes DEFAULT_CONTEXT, limited by the model.
    cancelled: asked now and then while the weights are read; InterruptedError when it says so.
    Raises ModelFileError when llama.cpp cannot run the file, EngineUnavailable when the package or the
        memory is missing.
    """

    kernels = "llama.cpp"
    kv_pages = None

    def __init__(
        self,
        path: Path,
        pooling: Pooling | None = Pooling.MEAN,
        *,
        threads: int | None = None,
        context_tokens: int | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.pooling = pooling or Pooling.MEAN
        self.hidden_states = self if pooling is not None else None
        self._lib = lib = library()
        self.name = path.stem
        self.threads = threads if threads is not None else default_threads()
        self._model = load_model(lib, path, cancelled)
        self.n_vocab = int(lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self._model)))
        self._embedding = int(lib.llama_model_n_embd_out(self._model))
        trained = int(lib.llama_model_n_ctx_train(self._model))
        self.context_tokens = min(context_tokens or DEFAULT_CONTEXT, trained)
        self.kv_tokens = KV_CONTEXTS * self.context_tokens
        self._stop = False
        self._context = self._new_context()
        self._memory = lib.llama_get_memory(self._context)
        self._lengths: dict[int, int] = {}

    @property
    def free_tokens(self) -> int:
        # Forks share cells, so this is the least that may be free.
        return max(0, self.kv_tokens - sum(self._lengths.values()))

    def new_sequence(self) -> int:
        free = next((seq for seq in range(MAX_SEQUENCES) if seq not in self._lengths), None)
        if free is None:
            raise MemoryError("all sequences are in use")
        self._lengths[free] = 0
        return free

    def free_sequence(self, seq: int) -> None:
        self._forget(seq, 0)
        del self._lengths[seq]

    def fork_sequence(self, seq: int, length: int) -> int:
        fork = self.new_sequence()
        self._lib.llama_memory_seq_cp(self._memory, seq, fork, 0, length)
        self._lengths[fork] = length
        return fork

    def truncate(self, seq: int, length: int) -> None:
        self._forget(seq, length)

    def forward(
        self, seqs: NDArray[np.int32], tokens: NDArray[np.int32], want_logits: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        self._decode(seqs, tokens, want_logits)
        return self._rows(self._lib.llama_get_logits_ith, want_logits, self.n_vocab)

    def forward_hidden(
        self,
        seqs: NDArray[np.int32],
        tokens: NDArray[np.int32],
        want_logits: NDArray[np.bool_],
        want_hidden: NDArray[np.bool_],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        lib = self._lib
        lib.llama_set_embeddings(self._context, True)
        try:
            self._decode(seqs, tokens, want_logits | want_hidden)
            logits = self._rows(lib.llama_get_logits_ith, want_logits, self.n_vocab)
            return logits, self._rows(lib.llama_get_embeddings_ith, want_hidden, self._embedding)
        finally:
            lib.llama_set_embeddings(self._context, False)

    def _decode(self, seqs: NDArray[np.int32], tokens: NDArray[np.int32], outputs: NDArray[np.bool_]) -> None:
        before = {int(seq): self._lengths[int(seq)] for seq in seqs}
        batch = self._batch(seqs, tokens, outputs)
        self._stop = False
        try:
            result = self._lib.llama_decode(self._context, batch)
        finally:
            self._lib.llama_batch_free(batch)
        if result != 0:
            for seq, length in before.items():
                self._forget(seq, length)
            raise failure(result)

    def cancel(self) -> None:
        self._stop = True

    def close(self) -> None:
        self._lib.llama_free(self._context)
        self._lib.llama_model_free(self._model)

    def _new_context(self) -> Any:
        lib = self._lib
        params = lib.llama_context_default_params()
        params.n_ctx = self.kv_tokens
        params.n_batch = MAX_BATCH
        params.n_seq_max = MAX_SEQUENCES
        params.kv_unified = True
        params.pooling_type = lib.LLAMA_POOLING_TYPE_NONE
        params.n_threads = params.n_threads_batch = self.threads
        # Asked between operations of the graph. The object must outlive the context.
        self._abort = lib.ggml_abort_callback(lambda _: self._stop)
        params.abort_callback = self._abort
        context = lib.llama_init_from_model(self._model, params)
        if not context:
            raise EngineUnavailable(
                f"llama.cpp found no memory for {self.name} with {self.kv_tokens} tokens of context.",
                action="Close other programs or choose a smaller model.",
            )
        return context

    def _batch(
        self, seqs: NDArray[np.int32], tokens: NDArray[np.int32], want_logits: NDArray[np.bool_]
    ) -> Any:
        batch = self._lib.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, (seq, token, wanted) in enumerate(zip(seqs, tokens, want_logits, strict=True)):
            batch.token[i] = int(token)
            batch.pos[i] = self._lengths[int(seq)]
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = int(seq)
            batch.logits[i] = bool(wanted)
            self._lengths[int(seq)] += 1
        return batch

    def _rows(
        self, get: Callable[[Any, int], Any], wanted: NDArray[np.bool_], columns: int
    ) -> NDArray[np.float32]:
        rows = np.flatnonzero(wanted)
        out = np.empty((len(rows), columns), np.float32)
        for to, row in zip(out, rows, strict=True):
            ctypes.memmove(to.ctypes.data, get(self._context, int(row)), to.nbytes)
        return out

    def _forget(self, seq: int, length: int) -> None:
        self._lib.llama_memory_seq_rm(self._memory, seq, length, -1)
        self._lengths[seq] = length


def library() -> ModuleType:
    """The functions of llama.h. Raises EngineUnavailable when the package cannot be used."""
    try:
        functions: ModuleType = import_module("llama_cpp.llama_cpp")
    except (ImportError, OSError, RuntimeError) as error:
        raise EngineUnavailable(
            f"llama-cpp-python is not usable: {error}.",
            action="Install it beside Hearth: pip install 'hearth[llama-cpp]'.",
        ) from error
    functions.llama_backend_init()
    return functions


def load_model(lib: ModuleType, path: Path, cancelled: Callable[[], bool]) -> Any:
    """The model, to be freed by the caller.

    Raises ModelFileError when llama.cpp cannot run the file, InterruptedError when `cancelled` says so.
    """
    params = lib.llama_model_default_params()
    params.n_gpu_layers = 0
    # llama.cpp gives up the load when this says no (llama.h). The object must outlive the load.
    go_on = lib.llama_progress_callback(lambda _progress, _data: not cancelled())
    params.progress_callback = go_on
    model = lib.llama_model_load_from_file(str(path).encode(), params)
    if not model and cancelled():
        raise InterruptedError
    if not model:
        raise ModelFileError(
            f"llama.cpp cannot run {path.name} either.", action="Choose another model, or fetch it again."
        )
    return model


def failure(result: int) -> Exception:
    """What an answer of llama_decode or llama_encode other than 0 means."""
    if result == _NO_ROOM:
        return MemoryError("llama.cpp's KV cache is full")
    if result == _ABORTED:
        return InterruptedError("cancelled")
    return EngineUnavailable(
        f"llama.cpp failed in the middle of a step (code {result}).",
        meaning="There will be no suggestions until the engine is started again.",
        action="Restart the language server; if it happens again, report it with the log.",
    )
