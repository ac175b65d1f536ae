"""Grammars as texts: what a message must match, from a request's constraint and tools.

The language is llguidance's Lark, with JSON schemas and the user's own grammars as named parts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import llguidance

from engine.chat.formats import CALL, END_CALL, THINK, ToolFormat
from engine.chat.qwen3_coder_call import END_FUNCTION, END_PARAMETER, FUNCTION, PARAMETER
from engine.chat.values import types_of
from engine.constraints.schema import bounded_schema, check_size, guided, parse_schema
from engine.errors import RequestError
from engine.types import Constraint, ConstraintKind, Tool

_FREE = "(.|\\n)*"
_NOTHING = '""'

MAX_ORDERS = 32
"""Rules of one tool in the qwen3_coder format that say which parameters may still come; their number doubles
with each optional parameter, and 128 tools may be offered."""


@dataclass(slots=True)
class _Parts:
    """The rules of the main grammar, and the grammars that they refer to by name."""

    rules: list[str] = field(default_factory=list)
    named: list[dict[str, object]] = field(default_factory=list)

    def rule(self, name: str, body: str) -> None:
        self.rules.append(f"{name}: {body}")

    def schema(self, name: str, schema: Mapping[str, object], *, lenient: bool) -> str:
        self.named.append({"name": name, "json_schema": guided(schema, lenient=lenient)})
        return f"@{name}"

    def text(self) -> str:
        return json.dumps({"grammars": [{"lark_grammar": "\n".join(self.rules)}, *self.named]})


def output_grammar(constraint: Constraint) -> str:
    """A text that matches the constraint as a whole. Raises RequestError for what cannot be enforced."""
    parts = _Parts()
    _content(parts, constraint)
    parts.rule("start", "content")
    return parts.text()


@dataclass(frozen=True, slots=True)
class CallRules:
    """How a message may call tools.

    tools: those that may be called. required: whether one must be called. parallel: whether several may.
    """

    format: ToolFormat
    tools: tuple[Tool, ...]
    required: bool
    parallel: bool


def message_grammar(
    constraint: Constraint | None, calls: CallRules | None, *, thinking: bool, blanks: bool
) -> str | None:
    """What a chat message must match; None when it may be any text.

    thinking: whether it may begin with reasoning, of which everything after the tag is free.
    blanks: whether blanks may come first, as they do after reasoning.
    Raises RequestError for what cannot be enforced.
    """
    parts = _Parts()
    body = _body(parts, constraint, calls)
    if body is None:
        return None
    if thinking:
        parts.rule("thought", f"{_literal(THINK)} ANYTHING")
        parts.rule("ANYTHING", f"/{_FREE}/")
        body = f"thought | {body}"
    parts.rule("BLANKS", r"/[ \t\r\n]{1,8}/")
    parts.rule("start", f"BLANKS? ({body})" if blanks else body)
    return parts.text()


def _body(parts: _Parts, constraint: Constraint | None, calls: CallRules | None) -> str | None:
    if calls is None:
        if constraint is None:
            return None
        _content(parts, constraint)
        return "content"
    _calls(parts, calls)
    again = f"({_literal(_SEPARATOR)} call)*" if calls.parallel else ""
    if calls.required:
        return f"call {again}"
    if constraint is not None:
        _content(parts, constraint)
        return f"content | call {again}"
    if calls.format is ToolFormat.JSON:
        return None  # such a call has no tag to know it by before it is written
    # Text is free until it holds the tag that opens a call: of two, the inner one, as models omit the outer.
    opening = FUNCTION if calls.format is ToolFormat.QWEN3_CODER else CALL
    parts.rule("called[lazy]", f"/{_FREE}?{opening}/")
    parts.rule("TEXT", f"/{_FREE}/")
    return "(called rest)* TEXT" if calls.parallel else "called rest | TEXT"


_SEPARATOR = "\n"


def _content(parts: _Parts, constraint: Constraint) -> None:
    source = constraint.source
    match constraint.kind:
        case ConstraintKind.JSON_OBJECT:
            parts.schema("text", {"type": "object"}, lenient=False)
        case ConstraintKind.JSON_SCHEMA:
            parts.schema("text", parse_schema(source), lenient=False)
        case ConstraintKind.REGEX:
            check_size(source, "regular expression")
            parts.named.append({"name": "text", "lark_grammar": f"start: /{_regex(source)}/"})
        case ConstraintKind.LARK:
            check_size(source, "grammar")
            if "%json" in source:  # its schema would escape `parse_schema`
                raise RequestError(
                    "The grammar uses %json, which cannot be enforced.",
                    action="Give the JSON schema as the constraint itself.",
                )
            parts.named.append({"name": "text", "lark_grammar": source})
    parts.rule("content", "@text")


def _regex(source: str) -> str:
    if not source:
        raise RequestError("The regular expression is empty, so nothing could be written.")
    return llguidance.regex_to_lark(source)


def _calls(parts: _Parts, calls: CallRules) -> None:
    """The rules `call`, and `rest`: a call after the tag that tells it from text."""
    alternatives = []
    for number, tool in enumerate(calls.tools):
        schema = bounded_schema(tool.parameters, f"JSON schema of the tool {tool.name!r}")
        name = f"tool_{number}"
        if calls.format is ToolFormat.QWEN3_CODER:
            parts.rule(name, _raw_parameters(parts, name, tool.name, schema))
        else:
            arguments = parts.schema(f"{name}_arguments", {"type": "object", **schema}, lenient=True)
            head = f'{{"name": {json.dumps(tool.name, ensure_ascii=False)}, '
            parts.rule(name, f"{_literal(head)} KEY {_literal(': ')} {arguments} {_literal('}')}")
        alternatives.append(name)
    parts.rule("tool", " | ".join(alternatives))
    match calls.format:
        case ToolFormat.QWEN3_CODER:
            parts.rule("raw[lazy]", rf"/{_FREE}?\n<\/parameter>\n/")
            parts.rule("rest", f"tool {_literal(END_FUNCTION)} {_literal(_SEPARATOR + END_CALL)}?")
            opening, closing = CALL + _SEPARATOR + FUNCTION, END_FUNCTION + _SEPARATOR + END_CALL
            parts.rule("call", f"{_literal(opening)} tool {_literal(closing)}")
        case ToolFormat.JSON:
            parts.rule("KEY", '"\\"arguments\\"" | "\\"parameters\\""')
            parts.rule("call", "tool")
        case _:
            parts.rule("KEY", '"\\"arguments\\""')
            parts.rule("rest", f"{_literal(_SEPARATOR)} tool {_literal(_SEPARATOR + END_CALL)}")
            parts.rule("call", f"{_literal(CALL)} rest")


def _raw_parameters(parts: _Parts, name: str, tool: str, schema: Mapping[str, object]) -> str:
    """A tool's name and parameters in the qwen3_coder format.

    The required ones come once each, in the schema's order; the optional ones anywhere among them, as models
    write them in an order of their own, and one that had to come earlier could not come at all. Of few, none
    comes twice; of many (MAX_ORDERS) one may, which the parser then takes for a broken call.
    """
    properties = schema.get("properties")
    required = schema.get("required")
    needed = {key for key in required if isinstance(key, str)} if isinstance(required, list) else set()
    definitions = {word: schema[word] for word in ("$defs", "definitions") if word in schema}
    required_rules: list[str] = []
    optional_rules: list[str] = []
    for number, (key, value) in enumerate(properties.items() if isinstance(properties, Mapping) else ()):
        rule = f"{name}_{number}"
        parts.rule(rule, f"{_literal(f'{PARAMETER}{_named(key)}>' + _SEPARATOR)} ")
        parts.rules[-1] += _raw_value(parts, rule, value, schema, definitions)
        (required_rules if key in needed else optional_rules).append(rule)
    head = _literal(f"{_named(tool)}>\n")
    if len(required_rules) + 1 << len(optional_rules) <= MAX_ORDERS:
        return f"{head} {_each_once(parts, name, required_rules, optional_rules)}"
    parts.rule(f"{name}_optional", " | ".join(optional_rules))
    between = f"{name}_optional*"
    return " ".join([head, between, *(f"{rule} {between}" for rule in required_rules)])


def _each_once(parts: _Parts, name: str, required: Sequence[str], optional: Sequence[str]) -> str:
    """A rule for each state: how many required parameters are left, and which optional ones may come."""
    start = f"{name}_after_{len(required)}_{(1 << len(optional)) - 1}"
    for left in range(len(required) + 1):
        for free in range(1 << len(optional)):
            ways = [
                f"{rule} {name}_after_{left}_{free & ~(1 << bit)}"
                for bit, rule in enumerate(optional)
                if free >> bit & 1
            ]
            if left:
                ways.append(f"{required[-left]} {name}_after_{left - 1}_{free}")
            parts.rule(
                f"{name}_after_{left}_{free}", f"({' | '.join(ways or [_NOTHING])}){'' if left else '?'}"
            )
    return start


def _raw_value(
    parts: _Parts, rule: str, value: object, root: Mapping[str, object], definitions: Mapping[str, object]
) -> str:
    end = _literal(_SEPARATOR + END_PARAMETER + _SEPARATOR)
    choices = value.get("enum") if isinstance(value, Mapping) else None
    if isinstance(choices, list) and choices and all(isinstance(choice, str) for choice in choices):
        return f"({' | '.join(_literal(choice) for choice in choices)}) {end}"
    if "string" in types_of(value, root) or not isinstance(value, Mapping):
        return "raw"
    return f"{parts.schema(f'{rule}_value', {**value, **definitions}, lenient=True)} {end}"


def _named(name: str) -> str:
    if not name or set(name) & set("<>\n"):
        raise RequestError(f"The name {name!r} cannot be written in this model's tool calls.")
    return name


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def tools_named(tools: Sequence[Tool], name: str) -> tuple[Tool, ...]:
    """The one tool of this name. Raises RequestError when none has it."""
    found = tuple(tool for tool in tools if tool.name == name)
    if not found:
        raise RequestError(
            f"The tool {name!r} must be called, but no tool of that name is offered.",
            action="Offer it, or name another.",
        )
    return found[:1]
