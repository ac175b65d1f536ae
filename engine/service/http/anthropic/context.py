"""`context_management`: what a client has taken out of old messages before the model reads them.

Anthropic documents three edits. Clearing old reasoning is done here. The other two, which clear or sum up
more once a prompt has some length, are refused by name: a client that relies on them must know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from engine.service.http.fields import Strict, kind_of
from engine.types import ChatMessage

CLEAR_THINKING = "clear_thinking_20251015"


class ThinkingTurns(Strict):
    type: Literal["thinking_turns"]
    value: Annotated[int, Field(ge=1)]


class AllTurns(Strict):
    type: Literal["all"]


class ClearThinking(Strict):
    """keep: of how many of the latest messages that have reasoning it stays; one, as documented."""

    type: Literal["clear_thinking_20251015"]
    keep: Literal["all"] | Annotated[ThinkingTurns | AllTurns, Field(discriminator="type")] = Field(
        default_factory=lambda: ThinkingTurns(type="thinking_turns", value=1)
    )


Edit = Annotated[Annotated[ClearThinking, Tag(CLEAR_THINKING)], Discriminator(kind_of)]


class ContextManagement(Strict):
    edits: list[Edit] = Field(default_factory=list)

    def apply(self, messages: Sequence[ChatMessage]) -> tuple[list[ChatMessage], int]:
        """The messages as edited, and how many lost their reasoning."""
        edited = list(messages)
        kept = [edit.keep.value for edit in self.edits if isinstance(edit.keep, ThinkingTurns)]
        with_reasoning = [index for index, message in enumerate(edited) if message.reasoning]
        cleared = with_reasoning[: -min(kept)] if kept else []
        for index in cleared:
            edited[index] = replace(edited[index], reasoning="")
        return edited, len(cleared)
