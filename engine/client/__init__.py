"""The one door from the language server to the engine.

`lsp_server` imports this package and `engine.types`, nothing deeper. `connect` answers it by the user's
resident service, which it starts where needed; `in_process` answers it inside the caller's own process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Protocol

from engine.types import (
    ChatDelta,
    ChatRequest,
    CompletionRequest,
    EngineStatus,
    InfillRequest,
    TextDelta,
)


class EngineClient(Protocol):
    """What every engine, in process or remote, offers.

    Streams are asynchronous generators: closing one (`aclose`, or leaving `async for` by a break
    under `contextlib.aclosing`) cancels the request, and the engine stops within one token.
    All methods raise `engine.errors.HearthError` subclasses, never anything else, for expected failures.
    """

    def infill(self, request: InfillRequest) -> AsyncGenerator[TextDelta, None]:
        """Stream the text that belongs between prefix and suffix."""
        ...

    def complete(self, request: CompletionRequest) -> AsyncGenerator[TextDelta, None]:
        """Stream the continuation of a text as it is."""
        ...

    def chat(self, request: ChatRequest) -> AsyncGenerator[ChatDelta, None]:
        """Stream the assistant's next message: content, reasoning and tool calls in the order written.

        Pieces of a call come while the model writes it. Only when the stream finishes with TOOL_CALLS are all
        of its calls whole; with any other reason the last one may be a part.
        """
        ...

    async def warm(self, request: InfillRequest) -> None:
        """Prefill the request's prompt so that a following `infill` starts at once; generates nothing."""
        ...

    async def status(self) -> EngineStatus:
        """The engine's state; cheap, never blocks on generation."""
        ...

    async def close(self) -> None:
        """Stop generation and free the model. Later calls raise EngineUnavailable."""
        ...


def open_in_process(
    model_path: Path,
    *,
    threads: int | None = None,
    context_tokens: int | None = None,
) -> EngineClient:
    """An engine in this process that starts loading the GGUF file at once; see `in_process`.

    threads: worker threads; None takes one for each physical core.
    context_tokens: the longest prompt and answer together; None takes a default that fits.
    Never raises for a bad file: the engine's status then says "failed" and why.
    """
    # Here, so that importing the interface alone costs no numpy.
    from engine.client import in_process

    return in_process.open_in_process(model_path, threads=threads, context_tokens=context_tokens)
