"""llama.cpp as an oracle: logits and pooled vectors of a GGUF model, by the fixtures of conftest.py.

The library is a prebuilt llama.cpp v0.5.0 from the npm package @node-llama-cpp/linux-x64 3.22.1 (no code
of the package itself runs):

    cd build/llama.cpp && npm pack @node-llama-cpp/linux-x64@3.22.1 && tar xzf *.tgz

Another folder with libllama of that version can be named by the environment variable HEARTH_LLAMA_CPP.
"""

import ctypes
import os
from collections import deque
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int8, c_int32, c_size_t, c_uint32, c_void_p
from pathlib import Path

import numpy as np

_F32 = 0
_FLASH_ATTENTION_OFF = 0
POOLING = {"none": 0, "mean": 1, "cls": 2, "last": 3}


class _ModelParams(ctypes.Structure):
    """llama_model_params of llama.cpp v0.5.0."""

    _fields_ = (
        ("devices", c_void_p),
        ("tensor_buft_overrides", c_void_p),
        ("n_gpu_layers", c_int32),
        ("split_mode", c_int32),
        ("load_mode", c_int32),
        ("lazy_mode", c_int32),
        ("main_gpu", c_int32),
        ("tensor_split", c_void_p),
        ("progress_callback", c_void_p),
        ("progress_callback_user_data", c_void_p),
        ("kv_overrides", c_void_p),
        ("vocab_only", c_bool),
        ("check_tensors", c_bool),
        ("use_extra_bufts", c_bool),
        ("no_host", c_bool),
        ("no_alloc", c_bool),
        ("load_mtp", c_bool),
    )


class _ContextParams(ctypes.Structure):
    """llama_context_params of llama.cpp v0.5.0."""

    _fields_ = (
        ("n_ctx", c_uint32),
        ("n_batch", c_uint32),
        ("n_ubatch", c_uint32),
        ("n_seq_max", c_uint32),
        ("n_rs_seq", c_uint32),
        ("n_outputs_max", c_uint32),
        ("n_outputs_max_per_seq", c_uint32),
        ("n_threads", c_int32),
        ("n_threads_batch", c_int32),
        ("ctx_type", c_int32),
        ("rope_scaling_type", c_int32),
        ("pooling_type", c_int32),
        ("attention_type", c_int32),
        ("flash_attn_type", c_int32),
        ("rope_freq_base", c_float),
        ("rope_freq_scale", c_float),
        ("yarn_ext_factor", c_float),
        ("yarn_attn_factor", c_float),
        ("yarn_beta_fast", c_float),
        ("yarn_beta_slow", c_float),
        ("yarn_orig_ctx", c_uint32),
        ("defrag_thold", c_float),
        ("cb_eval", c_void_p),
        ("cb_eval_user_data", c_void_p),
        ("type_k", c_int32),
        ("type_v", c_int32),
        ("abort_callback", c_void_p),
        ("abort_callback_data", c_void_p),
        ("embeddings", c_bool),
        ("offload_kqv", c_bool),
        ("no_perf", c_bool),
        ("op_offload", c_bool),
        ("swa_full", c_bool),
        ("kv_unified", c_bool),
        ("samplers", c_void_p),
        ("n_samplers", c_size_t),
        ("ctx_other", c_void_p),
    )


class _Batch(ctypes.Structure):
    """llama_batch."""

    _fields_ = (
        ("n_tokens", c_int32),
        ("token", POINTER(c_int32)),
        ("embd", POINTER(c_float)),
        ("pos", POINTER(c_int32)),
        ("n_seq_id", POINTER(c_int32)),
        ("seq_id", POINTER(POINTER(c_int32))),
        ("logits", POINTER(c_int8)),
    )


_LogCallback = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)
_log: deque[bytes] = deque(maxlen=10)  # shown when something fails
_keep_log = _LogCallback(lambda level, text, data: _log.append(text))

_SIGNATURES = {
    "llama_log_set": (None, [_LogCallback, c_void_p]),
    "llama_backend_init": (None, []),
    "llama_model_default_params": (_ModelParams, []),
    "llama_context_default_params": (_ContextParams, []),
    "llama_model_load_from_file": (c_void_p, [c_char_p, _ModelParams]),
    "llama_model_free": (None, [c_void_p]),
    "llama_model_get_vocab": (c_void_p, [c_void_p]),
    "llama_vocab_n_tokens": (c_int32, [c_void_p]),
    "llama_init_from_model": (c_void_p, [c_void_p, _ContextParams]),
    "llama_free": (None, [c_void_p]),
    "llama_get_memory": (c_void_p, [c_void_p]),
    "llama_memory_clear": (None, [c_void_p, c_bool]),
    "llama_batch_init": (_Batch, [c_int32, c_int32, c_int32]),
    "llama_batch_free": (None, [_Batch]),
    "llama_decode": (c_int32, [c_void_p, _Batch]),
    "llama_encode": (c_int32, [c_void_p, _Batch]),
    "llama_get_logits": (POINTER(c_float), [c_void_p]),
    "llama_get_embeddings_seq": (POINTER(c_float), [c_void_p, c_int32]),
    "llama_model_n_embd": (c_int32, [c_void_p]),
    "llama_tokenize": (c_int32, [c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool]),
}


def library_folder() -> Path | None:
    """Where the library is, or None."""
    default = Path(__file__).parents[1] / "build/llama.cpp/package/bins/linux-x64"
    folder = Path(os.environ.get("HEARTH_LLAMA_CPP", default))
    return folder if list(folder.glob("libllama.*so*")) else None


def load_library(folder: Path) -> ctypes.CDLL:
    (path, *_) = sorted(folder.glob("libllama.*so*"))
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.llama_log_set(_keep_log, None)
    # The processor's kernels are separate libraries beside it, the best one is chosen on loading.
    (ggml, *_) = sorted(folder.glob("libggml.*so*"))
    ctypes.CDLL(str(ggml)).ggml_backend_load_all_from_path(str(folder).encode())
    library.llama_backend_init()
    params = library.llama_context_default_params()
    known = (params.n_batch, params.n_ubatch, params.flash_attn_type, params.type_k, params.type_v)
    assert known == (2048, 512, -1, 1, 1), (
        f"{path} is not the llama.cpp v0.5.0 whose structures are known here"
    )
    return library


class LlamaCpp:
    """One model, one thread, float32 key-value cache, no flash attention: as exact as llama.cpp gets."""

    def __init__(self, library: ctypes.CDLL, path: Path, n_ctx: int = 512, pooling: str = "") -> None:
        self._lib = library
        model_params = library.llama_model_default_params()
        model_params.n_gpu_layers = 0
        self._model = library.llama_model_load_from_file(str(path).encode(), model_params)
        assert self._model, f"llama.cpp cannot load {path}: {b''.join(_log).decode()}"
        params = library.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = n_ctx
        params.n_seq_max = 4
        params.kv_unified = True
        params.n_threads = params.n_threads_batch = 1
        params.flash_attn_type = _FLASH_ATTENTION_OFF
        params.type_k = params.type_v = _F32
        if pooling:
            params.embeddings = True
            params.pooling_type = POOLING[pooling]
        self._context = library.llama_init_from_model(self._model, params)
        assert self._context, "llama.cpp cannot create a context"
        self._vocab = library.llama_model_get_vocab(self._model)
        self.n_vocab: int = library.llama_vocab_n_tokens(self._vocab)

    def close(self) -> None:
        self._lib.llama_free(self._context)
        self._lib.llama_model_free(self._model)

    def logits(
        self,
        tokens: Sequence[int],
        sequences: Sequence[int] | None = None,
        positions: Sequence[int] | None = None,
        *,
        chunk: int = 0,
    ) -> np.ndarray:
        """Logits (n, vocabulary) of rows given as in Transformer.forward, from an empty cache.

        chunk: rows per decode call; 0 is all at once.
        """
        n = len(tokens)
        if sequences is None:
            sequences = [0] * n
        if positions is None:
            positions = [list(sequences[:i]).count(s) for i, s in enumerate(sequences)]
        self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), True)
        rows = list(zip(tokens, sequences, positions, strict=True))
        return np.concatenate([self._decode(rows[i : i + (chunk or n)]) for i in range(0, n, chunk or n)])

    def embedding(self, tokens: Sequence[int]) -> np.ndarray:
        """The pooled vector of one text, (embedding,), not normalised; `pooling` was given."""
        memory = self._lib.llama_get_memory(self._context)
        if memory:
            self._lib.llama_memory_clear(memory, True)
        run = self._lib.llama_decode if memory else self._lib.llama_encode
        self._run(run, [(token, 0, i) for i, token in enumerate(tokens)])
        vector = self._lib.llama_get_embeddings_seq(self._context, 0)
        return np.ctypeslib.as_array(vector, shape=(self._lib.llama_model_n_embd(self._model),)).copy()

    def tokenize(self, text: str) -> list[int]:
        """Token ids, with what the file wants at the beginning and the end."""
        data = text.encode()
        ids = (c_int32 * (len(data) + 8))()
        n = self._lib.llama_tokenize(self._vocab, data, len(data), ids, len(ids), True, False)
        assert n >= 0
        return list(ids[:n])

    def _decode(self, rows: list[tuple[int, int, int]]) -> np.ndarray:
        self._run(self._lib.llama_decode, rows)
        logits = self._lib.llama_get_logits(self._context)
        return np.ctypeslib.as_array(logits, shape=(len(rows), self.n_vocab)).copy()

    def _run(self, run: Callable[..., int], rows: list[tuple[int, int, int]]) -> None:
        batch = self._lib.llama_batch_init(len(rows), 0, 1)
        try:
            batch.n_tokens = len(rows)
            for i, (token, sequence, position) in enumerate(rows):
                batch.token[i] = int(token)
                batch.pos[i] = int(position)
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = int(sequence)
                batch.logits[i] = 1
            assert run(self._context, batch) == 0
        finally:
            self._lib.llama_batch_free(batch)
