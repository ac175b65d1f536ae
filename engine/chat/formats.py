"""How a model was taught to call tools and to think, as its chat template tells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

THINK = "<think>"
END_THINK = "</think>"
CALL = "<tool_call>"
END_CALL = "</tool_call>"
TAGS = (THINK, END_THINK, CALL, END_CALL)
"""Spellings that are part of a message's text, even where a model file calls them control tokens."""


class ToolFormat(StrEnum):
    """The spelling of tool calls."""

    NONE = ""  # the template has no place for tools
    HERMES = "hermes"  # <tool_call>{"name": ..., "arguments": {...}}</tool_call>
    QWEN3_CODER = (
        "qwen3_coder"  # <tool_call><function=NAME><parameter=KEY>raw text</parameter></function></tool_call>
    )
    JSON = "json"  # {"name": ..., "parameters": {...}} as the whole message


# As in JSON, perhaps inside a string of the template; GLM's format has the tag but writes no JSON.
_NAME = re.compile(r"""\\?"name\\?"\s*:""")


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """tools: the spelling of calls. thinks: whether messages may begin with reasoning between think tags."""

    tools: ToolFormat
    thinks: bool


def detect_format(template: str) -> MessageFormat:
    """The format that a chat template's text teaches, whatever the model is called."""
    return MessageFormat(_tool_format(template), END_THINK in template)


def _tool_format(template: str) -> ToolFormat:
    if "<function=" in template and "<parameter=" in template:
        return ToolFormat.QWEN3_CODER
    if CALL in template and _NAME.search(template):
        return ToolFormat.HERMES
    return ToolFormat.JSON if "tools" in template else ToolFormat.NONE
