"""Input items of the Responses API, and the messages that they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Discriminator, Tag

from engine.service.http.fields import Ignored, Name, Strict, Unsupported, kind_of
from engine.service.http.openai.responses_tools import input_arguments, shown_name
from engine.types import ChatMessage, ToolCall


class TextPart(Strict):
    """annotations, logprobs: of output that a client sends back."""

    type: Literal["input_text", "output_text", "text"]
    text: str
    annotations: Ignored = None
    logprobs: Ignored = None
    prompt_cache_breakpoint: Ignored = None


Part = Annotated[
    Annotated[TextPart, Tag("input_text")]
    | Annotated[TextPart, Tag("output_text")]
    | Annotated[TextPart, Tag("text")],
    Discriminator(kind_of),
]
Content = Annotated[
    Annotated[str, Tag("string")] | Annotated[list[Part], Tag("parts")],
    Discriminator(lambda content: "parts" if isinstance(content, list) else "string"),
]


class MessageItem(Strict):
    """A message, also one of ours that a client sends back."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Content
    id: Ignored = None
    status: Ignored = None
    phase: Ignored = None


class FunctionCallItem(Strict):
    type: Literal["function_call"]
    call_id: Name
    name: Name
    namespace: Name | None = None
    arguments: str
    id: Ignored = None
    status: Ignored = None


class CustomCallItem(Strict):
    type: Literal["custom_tool_call"]
    call_id: Name
    name: Name
    namespace: Name | None = None
    input: str
    id: Ignored = None
    status: Ignored = None


class OutputItem(Strict):
    """What a function or a custom tool gave back."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: Name
    output: Content
    id: Ignored = None
    status: Ignored = None


class ReasoningPart(Strict):
    type: Literal["reasoning_text", "summary_text"]
    text: str


class ReasoningItem(Strict):
    """Reasoning sent back: its content, or else its summary."""

    type: Literal["reasoning"]
    summary: list[ReasoningPart] | None = None
    content: list[ReasoningPart] | None = None
    encrypted_content: Unsupported = None
    id: Ignored = None
    status: Ignored = None


def _item_kind(item: object) -> str | None:
    """A message need not say that it is one."""
    return kind_of(item) or "message"


InputItem = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[FunctionCallItem, Tag("function_call")]
    | Annotated[CustomCallItem, Tag("custom_tool_call")]
    | Annotated[OutputItem, Tag("function_call_output")]
    | Annotated[OutputItem, Tag("custom_tool_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(_item_kind),
]

ASSISTANT = ChatMessage("assistant", "")


def to_messages(items: Sequence[InputItem]) -> list[ChatMessage]:
    """The chat that the items tell.

    Reasoning, text and calls which follow each other are one assistant message, as the model wrote it.
    """
    messages: list[ChatMessage] = []
    turn: ChatMessage | None = None
    for item in items:
        grown = _grown(turn, item)
        if grown is not None:
            turn = grown
            continue
        if turn is not None:
            messages.append(turn)
        turn = _grown(None, item)
        if turn is None:
            messages.append(_message(item))
    return [*messages, turn] if turn is not None else messages


def _grown(turn: ChatMessage | None, item: InputItem) -> ChatMessage | None:
    """The assistant's turn with the item in it; None when it does not belong there."""
    start = turn or ASSISTANT
    match item:
        case ReasoningItem() if not start.content and not start.tool_calls:
            text = "".join(part.text for part in item.content or item.summary or ())
            return replace(start, reasoning=start.reasoning + text)
        case MessageItem(role="assistant") if not start.content and not start.tool_calls:
            return replace(start, content=_text(item.content))
        case FunctionCallItem() | CustomCallItem():
            arguments = input_arguments(item.input) if isinstance(item, CustomCallItem) else item.arguments
            call = ToolCall(item.call_id, shown_name(item.name, item.namespace), arguments)
            return replace(start, tool_calls=(*start.tool_calls, call))
        case _:
            return None


def _message(item: InputItem) -> ChatMessage:
    if isinstance(item, OutputItem):
        return ChatMessage("tool", _text(item.output), tool_call_id=item.call_id)
    assert isinstance(item, MessageItem)  # noqa: S101 - the others are of the assistant's turn
    return ChatMessage("user" if item.role == "user" else "system", _text(item.content))


def _text(content: str | list[TextPart]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)
