"""What the HTTP application needs of an engine; the daemon's host of models offers it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.generation.embedding import Embeddings
from engine.types import ChatDelta, ChatRequest, CompletionRequest, EngineStatus, InfillRequest, TextDelta


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that requests may name.

    aliases: other names that mean it.
    created: seconds since the epoch; 0 when not known.
    """

    name: str
    aliases: tuple[str, ...] = ()
    created: int = 0


class Served(Protocol):
    """An engine whose requests name a model; "" is the one that is in memory, or else the default.

    Streams are as in `engine.client.EngineClient`: closing one cancels its request, and the last piece has
    `finish` and `timing`. All methods raise HearthError subclasses for expected failures: RequestError
    (PromptTooLong, ModelNotFound), EngineBusy, EngineUnavailable, DeadlineExceeded.
    """

    def infill(self, request: InfillRequest, model: str = "") -> AsyncGenerator[TextDelta, None]:
        """Stream the text that belongs between prefix and suffix."""
        ...

    def complete(self, request: CompletionRequest, model: str = "") -> AsyncGenerator[TextDelta, None]:
        """Continue a text as it is."""
        ...

    def chat(self, request: ChatRequest, model: str = "") -> AsyncGenerator[ChatDelta, None]:
        """Stream the assistant's next message."""
        ...

    async def warm(self, request: InfillRequest, model: str = "") -> None:
        """Prefill the request's prompt; generates nothing."""
        ...

    async def status(self, model: str = "") -> EngineStatus:
        """What is in memory, or, where the name is a remote's model, what is known of that; loads nothing."""
        ...

    async def models(self) -> Sequence[ServedModel]:
        """The models that requests may name; loads nothing."""
        ...

    async def tokenize(self, text: str, *, special: bool = False, model: str = "") -> list[int]:
        """Token ids; special: whether the text of special tokens means them."""
        ...

    async def detokenize(self, ids: Sequence[int], *, model: str = "") -> str:
        """The text of tokens; bytes that are no UTF-8 become U+FFFD."""
        ...

    async def count_tokens(self, request: ChatRequest, model: str = "") -> int:
        """The length of a chat's prompt."""
        ...

    async def embed(self, texts: Sequence[str], model: str = "") -> Embeddings:
        """A vector for each text. Raises RequestError when the model makes none, or for what a text has."""
        ...
