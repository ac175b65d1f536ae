"""The pieces of streamed answers, as far as they are read, and checked for their types."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.backends.openai.failures import MalformedAnswer


class _Read(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, hide_input_in_errors=True)


class PromptDetails(_Read):
    cached_tokens: int | None = None


class UsageChunk(_Read):
    prompt_tokens: int = 0
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None


class TopLogprob(_Read):
    token: str
    logprob: float
    bytes: list[int] | None = None


class ContentLogprob(TopLogprob):
    top_logprobs: list[TopLogprob] | None = None


class ChatLogprobs(_Read):
    content: list[ContentLogprob] | None = None


class TextLogprobs(_Read):
    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] | None = None


class CalledFunction(_Read):
    name: str | None = None
    arguments: str | None = None


class CallPiece(_Read):
    index: int
    id: str | None = None
    function: CalledFunction | None = None


class Delta(_Read):
    """Reasoning has two names: vLLM's newer one, and that of SGLang, DeepSeek and older vLLM."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallPiece] | None = None


class _Choice(_Read):
    """stop_reason is vLLM's, matched_stop SGLang's: the stop string, or the id of a token."""

    finish_reason: str | None = None
    stop_reason: int | str | None = None
    matched_stop: int | str | None = None


class ChatChoice(_Choice):
    delta: Delta
    logprobs: ChatLogprobs | None = None


class TextChoice(_Choice):
    text: str = ""
    logprobs: TextLogprobs | None = None


class ChatChunk(_Read):
    choices: list[ChatChoice]
    usage: UsageChunk | None = None


class TextChunk(_Read):
    choices: list[TextChoice]
    usage: UsageChunk | None = None


Chunk = TypeVar("Chunk", ChatChunk, TextChunk)


def read_chunk(kind: type[Chunk], value: dict[str, Any]) -> Chunk:
    """Raises MalformedAnswer, which names the field and quotes nothing."""
    try:
        chunk = kind.model_validate(value)
    except ValidationError as error:
        # Four parts are names of ours; further down they may be tokens of the answer.
        field = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"][:4])
        raise MalformedAnswer(f"the field {field} of a piece is not what it should be") from None
    if len(chunk.choices) > 1:
        raise MalformedAnswer("a piece has several choices, and one was asked for")
    return chunk
