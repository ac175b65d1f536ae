"""Content blocks of messages, and the engine's messages that they are."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Discriminator, Tag

from engine.service.http.fields import Ignored, Name, Strict, Unsupported, kind_of
from engine.types import ChatMessage, ToolCall


class TextBlock(Strict):
    """cache_control: prefixes are cached without being told."""

    type: Literal["text"]
    text: str
    cache_control: Ignored = None
    citations: Unsupported = None


class ThinkingBlock(Strict):
    """Reasoning sent back."""

    type: Literal["thinking"]
    thinking: str
    signature: Ignored = None


class RedactedThinkingBlock(Strict):
    """Reasoning of another provider that nobody here can read: left out."""

    type: Literal["redacted_thinking"]
    data: Ignored = None


class ToolUseBlock(Strict):
    type: Literal["tool_use"]
    id: Name
    name: Name
    input: dict[str, object]
    cache_control: Ignored = None
    caller: Unsupported = None


def _text_or_blocks(content: object) -> str:
    return "blocks" if isinstance(content, list) else "string"


OnlyText = Annotated[Annotated[TextBlock, Tag("text")], Discriminator(kind_of)]
TextContent = Annotated[
    Annotated[str, Tag("string")] | Annotated[list[OnlyText], Tag("blocks")], Discriminator(_text_or_blocks)
]


class ToolResultBlock(Strict):
    type: Literal["tool_result"]
    tool_use_id: Name
    content: TextContent = ""
    is_error: bool | None = None
    cache_control: Ignored = None


Block = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[RedactedThinkingBlock, Tag("redacted_thinking")]
    | Annotated[ToolUseBlock, Tag("tool_use")]
    | Annotated[ToolResultBlock, Tag("tool_result")],
    Discriminator(kind_of),
]
Content = Annotated[
    Annotated[str, Tag("string")] | Annotated[list[Block], Tag("blocks")], Discriminator(_text_or_blocks)
]


class Message(Strict):
    role: Literal["user", "assistant", "system"]
    content: Content


def text_of(content: str | list[TextBlock]) -> str:
    """Blocks stand on lines of their own."""
    return content if isinstance(content, str) else "\n".join(block.text for block in content)


def system_text(system: str | list[TextBlock] | None) -> str:
    """The system prompt, without the block in which Claude Code counts its requests.

    That block differs each time, so the prompt's prefix would never be found in the cache.
    """
    if system is None or isinstance(system, str):
        return system or ""
    return text_of([block for block in system if not block.text.startswith("x-anthropic-billing-header:")])


def to_messages(message: Message) -> list[ChatMessage]:
    """A message; the results of tools in it are messages of their own, in front of what the user says."""
    if isinstance(message.content, str):
        return [ChatMessage(message.role, message.content)]
    text = text_of([block for block in message.content if isinstance(block, TextBlock)])
    if message.role == "assistant":
        thoughts = [block.thinking for block in message.content if isinstance(block, ThinkingBlock)]
        calls = [
            ToolCall(block.id, block.name, json.dumps(block.input, ensure_ascii=False))
            for block in message.content
            if isinstance(block, ToolUseBlock)
        ]
        return [ChatMessage("assistant", text, reasoning="\n".join(thoughts), tool_calls=tuple(calls))]
    results = [_result(block) for block in message.content if isinstance(block, ToolResultBlock)]
    return [*results, ChatMessage(message.role, text)] if text or not results else results


def _result(block: ToolResultBlock) -> ChatMessage:
    text = text_of(block.content)
    # Chat templates have no place for the flag, and the model must know.
    return ChatMessage("tool", f"Error: {text}" if block.is_error else text, tool_call_id=block.tool_use_id)
