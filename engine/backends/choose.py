"""Which back end runs a model: ours where it knows the architecture, llama.cpp where that is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.backends import llama_cpp, llama_cpp_encoder
from engine.backends.base import Backend
from engine.backends.native import NativeBackend, architectures, open_gguf
from engine.backends.pooling import read_pooling
from engine.errors import ModelFileError

if TYPE_CHECKING:
    from engine._native import GgufFile

_INSTALL = "pip install 'hearth[llama-cpp]'"

# Architectures of llama.cpp whose attention looks both ways: they make vectors, and cannot write text.
ENCODERS = (
    "bert",
    "eurobert",
    "gemma-embedding",
    "jina-bert-v2",
    "jina-bert-v3",
    "modern-bert",
    "neo-bert",
    "nomic-bert",
    "nomic-bert-moe",
)


def is_encoder(gguf: GgufFile) -> bool:
    """Whether the model makes vectors alone: its architecture does, or its attention looks both ways."""
    architecture = gguf.get("general.architecture")
    return architecture in ENCODERS or gguf.get(f"{architecture}.attention.causal") is False


def load_backend(
    gguf: GgufFile,
    *,
    threads: int | None,
    context_tokens: int | None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Backend:
    """Load the weights of a model that writes text; the back end's `kernels` tells which one it is.

    cancelled: asked now and then; InterruptedError when it says so.
    Raises ModelFileError when no back end here runs the file, EngineUnavailable when memory is short.
    """
    ours = architectures()
    architecture = gguf.get("general.architecture")
    path = Path(gguf.path)
    if is_encoder(gguf):
        raise ModelFileError(
            f"{path.name} is an embedding model; it writes no text.", action="Choose another model."
        )
    if architecture in ours or not isinstance(architecture, str):
        return NativeBackend(gguf, threads=threads, context_tokens=context_tokens, cancelled=cancelled)
    if llama_cpp.installed():
        return llama_cpp.LlamaCppBackend(
            path,
            read_pooling(gguf),
            threads=threads,
            context_tokens=context_tokens,
            cancelled=cancelled,
        )
    raise ModelFileError(
        f"{path.name} has the architecture '{architecture}'; Hearth's engine runs {', '.join(ours)}.",
        action=f"Choose another model, or let llama.cpp run it: {_INSTALL}.",
    )


def load_encoder(
    path: Path,
    *,
    threads: int | None,
    context_tokens: int | None,
    cancelled: Callable[[], bool] = lambda: False,
) -> llama_cpp_encoder.LlamaCppEncoder:
    """Load an embedding model for which `is_encoder` is true.

    cancelled: as of `load_backend`.
    Raises ModelFileError when it cannot run here, EngineUnavailable when memory is short.
    """
    if not llama_cpp.installed():
        raise ModelFileError(
            f"{path.name} is an embedding model of a kind that llama.cpp runs, which is not installed.",
            action=f"Install it: {_INSTALL}.",
        )
    pooling = read_pooling(open_gguf(path))
    if pooling is None:
        raise ModelFileError(
            f"{path.name} gives scores or states of single tokens, and no vectors of texts.",
            action="Choose another model.",
        )
    return llama_cpp_encoder.LlamaCppEncoder(
        path, pooling, threads=threads, context_tokens=context_tokens, cancelled=cancelled
    )
