"""Tools of the Responses API: functions, custom tools that take plain text, and namespaces of both.

A model knows but one kind: functions with a name and an arguments object. So a tool of a namespace is shown
to it as `namespace.name`, and a custom tool as a function with one string, its `input`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from engine.service.http.fields import Strict, kind_of
from engine.service.http.openai.tools import FunctionDefinition, FunctionName
from engine.types import Tool

_PARAMETERS: Mapping[str, object] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


class TextInput(Strict):
    type: Literal["text"]


class GrammarInput(Strict):
    """A grammar is shown to the model with the description; what it writes is not held to it."""

    type: Literal["grammar"]
    syntax: Literal["lark", "regex"]
    definition: Annotated[str, Field(max_length=1 << 16)]


class FunctionTool(FunctionDefinition):
    """A function; the Responses API writes it without a level between."""

    type: Literal["function"]


class CustomTool(Strict):
    type: Literal["custom"]
    name: FunctionName
    description: str | None = None
    format: Annotated[TextInput | GrammarInput, Field(discriminator="type")] | None = None

    def tool(self) -> Tool:
        told = self.description or ""
        if isinstance(self.format, GrammarInput):
            told += f"\nThe input follows this {self.format.syntax} grammar:\n{self.format.definition}"
        return Tool(self.name, told, _PARAMETERS)


PlainTool = Annotated[
    Annotated[FunctionTool, Tag("function")] | Annotated[CustomTool, Tag("custom")], Discriminator(kind_of)
]


class NamespaceTool(Strict):
    """description: of all its tools; a model is shown each of them with its own alone."""

    type: Literal["namespace"]
    name: FunctionName
    description: str | None = None
    tools: Annotated[list[PlainTool], Field(min_length=1)]


ResponseTool = Annotated[
    Annotated[FunctionTool, Tag("function")]
    | Annotated[CustomTool, Tag("custom")]
    | Annotated[NamespaceTool, Tag("namespace")],
    Discriminator(kind_of),
]


@dataclass(frozen=True, slots=True)
class Declared:
    """A tool as the client declared it, and as the model is shown it."""

    shown: Tool
    name: str
    namespace: str | None
    custom: bool


def declared_tools(tools: Iterable[FunctionTool | CustomTool | NamespaceTool]) -> list[Declared]:
    """All tools, those of namespaces in their place."""
    found: list[Declared] = []
    for tool in tools:
        inner = tool.tools if isinstance(tool, NamespaceTool) else [tool]
        namespace = tool.name if isinstance(tool, NamespaceTool) else None
        for one in inner:
            plain = one.tool()
            shown = Tool(shown_name(one.name, namespace), plain.description, plain.parameters)
            found.append(Declared(shown, one.name, namespace, isinstance(one, CustomTool)))
    return found


def shown_name(name: str, namespace: str | None) -> str:
    """What the model calls a tool."""
    return f"{namespace}.{name}" if namespace else name


def input_arguments(text: str) -> str:
    """The arguments by which a model gives a custom tool its input."""
    return json.dumps({"input": text}, ensure_ascii=False)


_HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = r"\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|" + r'\\["\\/bfnrt]'
_WHOLE = re.compile(rf'(?:[^"\\]|{_PAIR}|{_ESCAPE})*')
"""Text of a JSON string up to its end, or to an escape that is not all there yet."""


class CustomInput:
    """The input of a custom tool, while the model writes the arguments that hold it."""

    def __init__(self) -> None:
        self._arguments = ""
        self._at: int | None = None
        self.text = ""

    def grow(self, piece: str) -> str:
        """What the piece adds to the input."""
        self._arguments += piece
        if self._at is None:
            head = _HEAD.match(self._arguments)
            if head is None:
                return ""
            self._at = head.end()
        whole = _WHOLE.match(self._arguments, self._at)
        assert whole is not None  # noqa: S101 - it matches nothing, at the least
        self._at = whole.end()
        return self._add(json.loads(f'"{whole[0]}"', strict=False))

    def end(self) -> str:
        """What is missing still: nothing, unless the arguments have another shape, or odd escapes.

        Those that have no such input are given as they are, for whoever runs the tool to judge.
        """
        try:
            value = json.loads(self._arguments, strict=False)
        except ValueError:
            return ""  # cut off
        meant = value.get("input") if isinstance(value, dict) else None
        whole = meant if isinstance(meant, str) else self._arguments
        whole = whole.encode(errors="replace").decode()  # half a surrogate pair could not be sent
        return self._add(whole.removeprefix(self.text)) if whole.startswith(self.text) else ""

    def _add(self, text: str) -> str:
        self.text += text
        return text
