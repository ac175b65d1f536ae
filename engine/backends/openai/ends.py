"""Why a remote's answer ended."""

from __future__ import annotations

from collections.abc import Sequence

from engine.backends.openai.chunks import ChatChoice, TextChoice
from engine.backends.openai.failures import MalformedAnswer
from engine.types import FinishReason

_REASONS = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH, "tool_calls": FinishReason.TOOL_CALLS}


def finish_of(reason: str) -> FinishReason:
    """Raises MalformedAnswer for an end that is none: an answer that was cut off, or filtered."""
    finish = _REASONS.get(reason)
    if finish is None:
        raise MalformedAnswer(
            "it cut the answer off"
            if reason in ("abort", "content_filter", "error")
            else "its answer ended for an unknown reason"
        )
    return finish


def stop_of(choice: ChatChoice | TextChoice, stops: Sequence[str]) -> str:
    """The request's stop string that ended the text; "" when none did, or the server does not tell."""
    for said in (choice.stop_reason, choice.matched_stop):
        if isinstance(said, str) and said in stops:
            return said
    return ""
