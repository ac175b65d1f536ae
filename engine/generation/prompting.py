"""What generation needs from a model's language: prompts as token ids, and a way back to text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from engine.generation.sequence import Output
from engine.types import ChatDelta, ChatRequest, CompletionRequest, InfillRequest, TextDelta

Delta = TypeVar("Delta", TextDelta, ChatDelta)


@dataclass(frozen=True, slots=True)
class Prompt(Generic[Delta]):
    """ids: the prompt. output: draws the tokens that follow it.

    deltas: what an event of the sequence brings to its reader; called once for each event, in order, on the
        engine thread.
    """

    ids: tuple[int, ...]
    output: Output
    deltas: Callable[[TextDelta], Sequence[Delta]]


class Prompting(Protocol):
    """Thread-safe, for it runs beside the engine thread."""

    @property
    def supports_infill(self) -> bool: ...

    @property
    def tool_format(self) -> str:
        """How the model was taught to spell tool calls (`engine.chat.ToolFormat`); "" for not at all."""
        ...

    @property
    def thinks(self) -> bool:
        """Whether the model can reason before it answers."""
        ...

    def infill(self, request: InfillRequest, budget: int) -> Prompt[TextDelta]:
        """The prompt for a hole, at most `budget` tokens long. Raises RequestError when unsupported."""
        ...

    def complete(self, request: CompletionRequest) -> Prompt[TextDelta]:
        """The prompt as it is. Raises RequestError for what cannot be served."""
        ...

    def chat(self, request: ChatRequest, context_tokens: int) -> Prompt[ChatDelta]:
        """The prompt for the next message of a chat. Raises RequestError for what cannot be served.

        context_tokens: what prompt and message together may have.
        """
        ...

    def count(self, request: ChatRequest) -> int:
        """How many tokens the chat's prompt has. Raises RequestError as `chat` does for the messages."""
        ...

    def embedding_ids(self, text: str) -> list[int]:
        """A text whose vector is wanted, with what the model expects at its beginning and end."""
        ...

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids of a text. special: whether spellings of control tokens become these."""
        ...

    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of token ids. Raises RequestError for ids outside the vocabulary."""
        ...
