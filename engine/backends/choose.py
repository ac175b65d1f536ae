"""Which back end runs a model: ours where it knows the architecture, llama.cpp where that is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.backends import llama_cpp
from engine.backends.base import Backend
from engine.backends.native import NativeBackend, architectures
from engine.errors import ModelFileError

if TYPE_CHECKING:
    from engine._native import GgufFile


def load_backend(
    gguf: GgufFile,
    *,
    threads: int | None,
    context_tokens: int | None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Backend:
    """Load the model's weights; the back end's `kernels` tells which one it is.

    cancelled: asked now and then; InterruptedError when it says so.
    Raises ModelFileError when no back end here runs the file, EngineUnavailable when memory is short.
    """
    ours = architectures()
    architecture = gguf.get("general.architecture")
    if architecture in ours or not isinstance(architecture, str):
        return NativeBackend(gguf, threads=threads, context_tokens=context_tokens, cancelled=cancelled)
    path = Path(gguf.path)
    if llama_cpp.installed():
        return llama_cpp.LlamaCppBackend(
            path, threads=threads, context_tokens=context_tokens, cancelled=cancelled
        )
    raise ModelFileError(
        f"{path.name} has the architecture '{architecture}'; Hearth's engine runs {', '.join(ours)}.",
        action="Choose another model, or let llama.cpp run it: pip install 'hearth[llama-cpp]'.",
    )
