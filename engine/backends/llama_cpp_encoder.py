"""Embedding models that only llama.cpp runs: bert and its like, with the file's own tokenizer and pooling."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.cpu import default_threads
from engine.backends.llama_cpp import DEFAULT_CONTEXT, failure, library, load_model
from engine.backends.pooling import Pooling
from engine.errors import EngineUnavailable

# An encoder reads a text in one piece, and llama.cpp sets memory aside for the longest: it is given room for
# so many tokens, and for a power of two times as many when a longer text comes.
SMALLEST_CONTEXT = 512

# Tokens that may come to a text beside those of its characters, at the beginning and the end.
SPECIAL_TOKENS = 8


class LlamaCppEncoder:
    """Vectors of texts. Used from one thread at a time, `cancel` excepted.

    One text runs at a time, so its bits depend on nothing beside it.

    threads: None takes one for each physical core.
    context_tokens: the longest text; None takes DEFAULT_CONTEXT, limited by the model.
    cancelled: as of `LlamaCppBackend`.
    Raises ModelFileError when llama.cpp cannot run the file, EngineUnavailable when the package or the
        memory is missing.
    """

    kernels = "llama.cpp"

    def __init__(
        self,
        path: Path,
        pooling: Pooling,
        *,
        threads: int | None = None,
        context_tokens: int | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._lib = lib = library()
        self._pooling = pooling
        self.name = path.stem
        self.threads = threads if threads is not None else default_threads()
        self._model = load_model(lib, path, cancelled)
        self._vocabulary = lib.llama_model_get_vocab(self._model)
        self.context_tokens = min(
            context_tokens or DEFAULT_CONTEXT, int(lib.llama_model_n_ctx_train(self._model))
        )
        self._embedding = int(lib.llama_model_n_embd_out(self._model))
        self._stop = False
        # Asked between operations of the graph. The object must outlive the context.
        self._abort = lib.ggml_abort_callback(lambda _: self._stop)
        self._context = None
        self._room = 0
        self._make_room(min(SMALLEST_CONTEXT, self.context_tokens))

    def tokenize(self, text: str) -> NDArray[np.int32]:
        """Token ids, shape (n,), with what the model expects at its beginning and end; no text is a control
        token."""
        data = text.encode("utf-8", errors="replace")
        ids = np.empty(len(data) + SPECIAL_TOKENS, np.int32)
        count = self._tokenize(data, ids)
        if count < 0:  # the tokenizer's normal form of the text is longer than the text
            ids = np.empty(-count, np.int32)
            count = self._tokenize(data, ids)
        return ids[:count].copy()

    def embed(self, tokens: NDArray[np.int32]) -> NDArray[np.float32]:
        """The pooled vector of a text of 1 to `context_tokens` tokens, shape (embedding,); of any length.

        Raises InterruptedError when cancelled.
        """
        lib = self._lib
        self._make_room(len(tokens))
        self._stop = False
        batch = lib.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i] = int(token), i
            batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = 1, 0, True
        memory = lib.llama_get_memory(self._context)
        try:
            if memory:  # a decoder that was made to look both ways
                lib.llama_memory_clear(memory, True)
                result = lib.llama_decode(self._context, batch)
            else:
                result = lib.llama_encode(self._context, batch)
        finally:
            lib.llama_batch_free(batch)
        if self._stop:
            raise InterruptedError("cancelled")
        if result != 0:
            raise failure(result)
        pooled = lib.llama_get_embeddings_seq(self._context, 0)
        return np.ctypeslib.as_array(pooled, (self._embedding,)).copy()

    def cancel(self) -> None:
        """From any thread: the text that runs now stops soon; without one, nothing happens."""
        self._stop = True

    def close(self) -> None:
        """Free the model. No other call may follow, `cancel` excepted."""
        self._lib.llama_free(self._context)
        self._lib.llama_model_free(self._model)

    def _tokenize(self, data: bytes, ids: NDArray[np.int32]) -> int:
        buffer = ids.ctypes.data_as(ctypes.POINTER(self._lib.llama_token))
        return int(self._lib.llama_tokenize(self._vocabulary, data, len(data), buffer, len(ids), True, False))

    def _make_room(self, tokens: int) -> None:
        if tokens <= self._room:
            return
        room = SMALLEST_CONTEXT
        while room < tokens:
            room *= 2
        lib = self._lib
        params = lib.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = room
        params.n_threads = params.n_threads_batch = self.threads
        params.embeddings = True
        params.pooling_type = int(self._pooling)
        params.abort_callback = self._abort
        context: Any = lib.llama_init_from_model(self._model, params)
        if not context:
            raise EngineUnavailable(
                f"llama.cpp found no memory for texts of {room} tokens in {self.name}.",
                action="Close other programs, send shorter texts or choose a smaller model.",
            )
        if self._context is not None:
            lib.llama_free(self._context)
        self._context, self._room = context, room
