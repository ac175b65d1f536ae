"""Messages of a chat, in every form that is documented or that clients send back."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from engine.service.http.fields import Ignored, Name, Strict, Unsupported, kind_of
from engine.types import ChatMessage, ToolCall


class TextPart(Strict):
    type: Literal["text"]
    text: str
    prompt_cache_breakpoint: Ignored = None


Part = Annotated[Annotated[TextPart, Tag("text")], Discriminator(kind_of)]


def _content_kind(content: object) -> str:
    return "parts" if isinstance(content, list) else "string"


Content = Annotated[
    Annotated[str, Tag("string")] | Annotated[list[Part], Tag("parts")], Discriminator(_content_kind)
]


class Instruction(Strict):
    role: Literal["system", "developer"]
    content: Content
    name: Unsupported = None


class UserMessage(Strict):
    role: Literal["user"]
    content: Content
    name: Unsupported = None


class CalledFunction(Strict):
    name: Name
    arguments: str


class AssistantToolCall(Strict):
    """index: as in the pieces of a stream, which some clients send back."""

    id: Name
    type: Literal["function"]
    function: CalledFunction
    index: Ignored = None


class AssistantMessage(Strict):
    role: Literal["assistant"]
    content: Content | None = None
    reasoning_content: str | None = None
    tool_calls: list[AssistantToolCall] | None = None
    name: Unsupported = None
    refusal: Unsupported = None
    audio: Unsupported = None
    function_call: Unsupported = None
    annotations: Unsupported = None


class ToolMessage(Strict):
    """name: of the tool, which the call has already."""

    role: Literal["tool"]
    content: Content
    tool_call_id: Name
    name: Ignored = None


Message = Annotated[Instruction | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


def text_of(content: str | list[TextPart] | None) -> str:
    """The text of a message; parts are put together as they are."""
    if content is None:
        return ""
    return content if isinstance(content, str) else "".join(part.text for part in content)


def to_message(message: Message) -> ChatMessage:
    """The engine's message."""
    match message:
        case ToolMessage():
            return ChatMessage("tool", text_of(message.content), tool_call_id=message.tool_call_id)
        case AssistantMessage():
            calls = tuple(
                ToolCall(call.id, call.function.name, call.function.arguments)
                for call in message.tool_calls or ()
            )
            return ChatMessage(
                "assistant",
                text_of(message.content),
                reasoning=message.reasoning_content or "",
                tool_calls=calls,
            )
        case UserMessage():
            return ChatMessage("user", text_of(message.content))
        case Instruction():
            return ChatMessage("system", text_of(message.content))
