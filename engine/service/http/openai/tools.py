"""Tools and tool_choice, in the forms of chats and of responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from engine.service.http.fields import Ignored, Name, Schema, Strict
from engine.service.http.problems import BadField
from engine.types import Tool, ToolChoice

_NO_PARAMETERS: Mapping[str, object] = {"type": "object", "properties": {}}

FunctionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]


class FunctionDefinition(Strict):
    """A function; parameters left out are none."""

    name: FunctionName
    description: str | None = None
    parameters: Schema | None = None
    strict: Ignored = None

    def tool(self) -> Tool:
        return Tool(self.name, self.description or "", self.parameters or _NO_PARAMETERS)


class FunctionTool(Strict):
    """A tool of a chat."""

    type: Literal["function"]
    function: FunctionDefinition


class NamedFunction(Strict):
    name: Name


class NamedChoice(Strict):
    """{"type": "function", "function": {"name": ...}}, as chats write it."""

    type: Literal["function"]
    function: NamedFunction


class AllowedTools(Strict):
    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedChoice], Field(min_length=1)]


class AllowedChoice(Strict):
    """{"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


Word = Literal["none", "auto", "required"]
ToolChoiceField = Word | Annotated[NamedChoice | AllowedChoice, Field(discriminator="type")]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The tools that the model is shown, and whether it must call one; named: which, for ToolChoice.NAMED."""

    tools: tuple[Tool, ...]
    choice: ToolChoice
    named: str = ""


def chosen_tools(choice: ToolChoiceField | None, tools: tuple[Tool, ...]) -> Chosen:
    """What `tool_choice` of a chat means. Raises BadField for names that no tool has."""
    match choice:
        case NamedChoice(function=function):
            return named_tool(function.name, tools)
        case AllowedChoice(allowed_tools=allowed):
            return allowed_tools(allowed.mode, [tool.function.name for tool in allowed.tools], tools)
        case _:
            return plain_choice(choice, tools)


def plain_choice(word: Word | None, tools: tuple[Tool, ...]) -> Chosen:
    """A choice in one word. Raises BadField when two tools share a name or "required" has none to call."""
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise BadField("tools", f"Two tools have the name {name!r}.")
    if word == "required" and not tools:
        raise BadField("tool_choice", "There are no tools to call.")
    return Chosen(tools, ToolChoice(word or "auto"))


def named_tool(name: str, tools: tuple[Tool, ...]) -> Chosen:
    """The one tool that must be called. Raises BadField when there is none of that name."""
    plain_choice(None, tools)
    _check_known([name], tools)
    return Chosen(tools, ToolChoice.NAMED, name)


def allowed_tools(mode: Literal["auto", "required"], names: list[str], tools: tuple[Tool, ...]) -> Chosen:
    """A choice among some of the tools: the model is shown only those. Raises BadField for unknown names."""
    plain_choice(None, tools)
    _check_known(names, tools)
    return plain_choice(mode, tuple(tool for tool in tools if tool.name in names))


def _check_known(names: list[str], tools: tuple[Tool, ...]) -> None:
    known = {tool.name for tool in tools}
    for name in names:
        if name not in known:
            raise BadField("tool_choice", f"No tool has the name {name!r}.")
