"""What generation needs from a model's language: prompts as token ids, and a way back to text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.generation.sequence import Output
from engine.tokenizer import Tokenizer
from engine.types import ChatRequest, InfillRequest


@dataclass(frozen=True, slots=True)
class Prompt:
    """ids: the prompt. output: draws the tokens that follow it."""

    ids: tuple[int, ...]
    output: Output


class Prompting(Protocol):
    """Thread-safe, for it runs beside the engine thread."""

    @property
    def supports_infill(self) -> bool: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    def infill(self, request: InfillRequest, budget: int) -> Prompt:
        """The prompt for a hole, at most `budget` tokens long. Raises RequestError when unsupported."""
        ...

    def chat(self, request: ChatRequest) -> Prompt:
        """The prompt for the next message of a chat. Raises RequestError when unsupported."""
        ...
