"""llama.cpp as a speed peer: a prebuilt library, with kernels for each processor, out of an npm package.

Release v0.5.0, from npm's @node-llama-cpp/linux-x64 3.22.1. Of the package only the shared libraries
are used; no JavaScript of it is run. `python -m bench.peer` fetches it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import cffi
import numpy as np

PACKAGE = "@node-llama-cpp/linux-x64"
VERSION = "3.22.1"
SHA256 = "0d953e1503d5ab4608d8ed5b739132308c81ac05ffeb760d2a7f30e08a9f90e0"  # of the package's archive
RELEASE = "v0.5.0"
_LIBRARIES = "package/bins/linux-x64/"

# What is used of llama.h and ggml-backend.h of that release.
_DECLARATIONS = """
typedef struct { void *devices, *buffer_overrides;
    int32_t n_gpu_layers, split_mode, load_mode, lazy_mode, main_gpu;
    const float *tensor_split; void *progress, *progress_data; const void *kv_overrides;
    bool vocab_only, check_tensors, use_extra_bufts, no_host, no_alloc, load_mtp; } model_params;
typedef struct { uint32_t n_ctx, n_batch, n_ubatch, n_seq_max, n_rs_seq, n_outputs_max, n_outputs_max_per_seq;
    int32_t n_threads, n_threads_batch, ctx_type, rope_scaling_type, pooling_type, attention_type;
    int32_t flash_attn_type;
    float rope_freq_base, rope_freq_scale, yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
    uint32_t yarn_orig_ctx; float defrag_thold; void *cb_eval, *cb_eval_data; int32_t type_k, type_v;
    void *abort, *abort_data; bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified;
    void *samplers; size_t n_samplers; void *ctx_other; } context_params;
typedef struct { int32_t n_tokens; int32_t *token; float *embd; int32_t *pos, *n_seq_id; int32_t **seq_id;
    int8_t *logits; } batch;
void ggml_backend_load_all_from_path(const char *folder);
void llama_log_set(void *callback, void *data);
void llama_backend_init(void);
model_params llama_model_default_params(void);
context_params llama_context_default_params(void);
void *llama_model_load_from_file(const char *path, model_params params);
void llama_model_free(void *model);
void *llama_init_from_model(void *model, context_params params);
void llama_free(void *context);
const void *llama_model_get_vocab(const void *model);
int32_t llama_vocab_n_tokens(const void *vocab);
batch llama_batch_get_one(int32_t *tokens, int32_t n_tokens);
int32_t llama_decode(void *context, batch batch);
float *llama_get_logits_ith(void *context, int32_t i);
void *llama_get_memory(const void *context);
void llama_memory_clear(void *memory, bool data);
const char *llama_print_system_info(void);
"""


class PeerError(Exception):
    """The peer cannot be fetched or used; the message says what to do."""


def fetch() -> Path:
    """The folder of the libraries, fetched by npm on first use. Raises PeerError."""
    folder = _cache() / f"llama.cpp-{RELEASE}"
    if folder.is_dir():
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise PeerError('npm is not on PATH. Run: PATH="$(tools/node.sh):$PATH" python -m bench.peer')
    _cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_cache(), prefix=".partial-") as scratch:
        packed = subprocess.run(
            [npm, "pack", "--silent", f"{PACKAGE}@{VERSION}"],
            cwd=scratch,
            capture_output=True,
            text=True,
            check=False,
        )
        if packed.returncode:
            raise PeerError(f"npm could not fetch {PACKAGE} {VERSION}: {packed.stderr.strip()}")
        unpack(Path(scratch, packed.stdout.split()[-1]), Path(scratch, "libraries"))
        Path(scratch, "libraries").rename(folder)
    return folder


def unpack(archive: Path, folder: Path, sha256: str = SHA256) -> None:
    """Take the shared libraries out of the package's archive. Raises PeerError when its hash is another."""
    got = hashlib.sha256(archive.read_bytes()).hexdigest()
    if got != sha256:
        raise PeerError(f"{archive.name} has SHA-256 {got}, not {sha256}; it was not unpacked.")
    folder.mkdir()
    with tarfile.open(archive) as tar:
        for member in tar:
            data = tar.extractfile(member) if member.name.startswith(_LIBRARIES) else None
            if data is not None:
                (folder / Path(member.name).name).write_bytes(data.read())


def _cache() -> Path:
    named = os.environ.get("HEARTH_DEV_CACHE")
    return (
        Path(named)
        if named
        else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hearth-dev"
    )


class LlamaCpp:
    """A model in llama.cpp with one sequence; KV cache in F16, batches of up to 512 tokens.

    Raises PeerError when the library is another release than declared here, or refuses the model.
    """

    def __init__(self, model: Path, *, context_tokens: int, threads: int) -> None:
        folder = fetch()
        self._ffi = cffi.FFI()
        self._ffi.cdef(_DECLARATIONS)
        flags = self._ffi.RTLD_NOW | self._ffi.RTLD_GLOBAL
        ggml = self._ffi.dlopen(str(folder / f"libggml.{RELEASE}.so"), flags)
        self._lib = self._ffi.dlopen(str(folder / f"libllama.{RELEASE}.so"), flags)
        self._quiet = self._ffi.callback("void(int, const char *, void *)", lambda *_: None)
        self._lib.llama_log_set(self._quiet, self._ffi.NULL)
        ggml.ggml_backend_load_all_from_path(str(folder).encode())
        self._lib.llama_backend_init()
        params = self._lib.llama_context_default_params()
        if (params.n_ctx, params.n_batch, params.type_k, params.type_v, params.n_samplers) != (
            512,
            2048,
            1,
            1,
            0,
        ):
            raise PeerError(f"The library in {folder} lays out its parameters in another way than {RELEASE}.")
        params.n_ctx, params.n_batch, params.n_ubatch = context_tokens, 512, 512
        params.n_threads = params.n_threads_batch = threads
        loaded = self._lib.llama_model_load_from_file(
            str(model).encode(), self._lib.llama_model_default_params()
        )
        self._context = self._lib.llama_init_from_model(loaded, params) if loaded else self._ffi.NULL
        if not self._context:
            raise PeerError(f"llama.cpp cannot load {model}.")
        self.n_vocab = int(self._lib.llama_vocab_n_tokens(self._lib.llama_model_get_vocab(loaded)))

    @property
    def kernels(self) -> str:
        """What the library says of the instruction sets that it uses."""
        return str(self._ffi.string(self._lib.llama_print_system_info()).decode())

    def clear(self) -> None:
        """Forget every token."""
        self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), True)

    def forward(self, tokens: np.ndarray) -> np.ndarray:
        """Append tokens (int32, at most 512) to the sequence; the logits after the last, shape (n_vocab,)."""
        tokens = np.ascontiguousarray(tokens, np.int32)
        pointer = self._ffi.cast("int32_t *", tokens.ctypes.data)
        if status := self._lib.llama_decode(
            self._context, self._lib.llama_batch_get_one(pointer, len(tokens))
        ):
            raise PeerError(f"llama_decode failed with status {status}.")
        logits = self._lib.llama_get_logits_ith(self._context, -1)
        return np.frombuffer(self._ffi.buffer(logits, 4 * self.n_vocab), np.float32)


if __name__ == "__main__":
    print(fetch())
