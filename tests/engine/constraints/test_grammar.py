"""What grammars let through: content, reasoning before it, and tool calls of each format."""

import itertools
import json

import jsonschema
import pytest

from engine.chat import MessageParser, ToolFormat
from engine.constraints import CallRules, message_grammar, output_grammar, tools_named
from engine.errors import RequestError
from engine.types import Constraint, ConstraintKind, Tool

READ = Tool(
    "read",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 99},
            "mode": {"enum": ["text", "bytes"]},
            "flags": {"type": "array", "items": {"$ref": "#/$defs/flag"}, "uniqueItems": True},
        },
        "$defs": {"flag": {"type": "boolean"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)
NOW = Tool("now")


def schema(value):
    return Constraint(ConstraintKind.JSON_SCHEMA, json.dumps(value))


def rules(format, *tools, required=True, parallel=True):
    return CallRules(format, tools or (READ, NOW), required, parallel)


def calls(format, *tools, **options):
    return message_grammar(None, rules(format, *tools, **options), thinking=False, blanks=False)


@pytest.mark.parametrize(
    ("constraint", "right", "wrong"),
    [
        (
            Constraint(ConstraintKind.JSON_OBJECT),
            ['{"a": [1, null]}', "{}", '{\n  "a": 1\n}'],
            ["[1]", "", "{}x", "{\n\n}"],
        ),
        (schema({"type": "array", "items": {"type": "integer"}}), ["[1, 2]"], ['["a"]', "{}"]),
        (schema(True), ["1", '"x"', "{}"], ["x"]),
        (Constraint(ConstraintKind.REGEX, r"a/b\d+"), ["a/b1", "a/b22"], ["a/b", "xa/b1", "a/b1 "]),
        (Constraint(ConstraintKind.LARK, 'start: "a" b+\nb: "b" | "c"'), ["ab", "abcb"], ["a", "b", "abd"]),
    ],
    ids=["object", "schema", "any", "regex", "lark"],
)
def test_output_matches_as_a_whole(accepts, constraint, right, wrong):
    grammar = output_grammar(constraint)
    assert all(accepts(grammar, text) for text in right)
    assert not any(accepts(grammar, text) for text in wrong)


def test_reasoning_before_content_is_free(accepts):
    grammar = message_grammar(schema({"type": "object"}), None, thinking=True, blanks=False)
    assert accepts(grammar, "{}")
    assert accepts(grammar, "<think>\nanything { at all")
    assert not accepts(grammar, "no")
    after = message_grammar(schema({"type": "object"}), None, thinking=False, blanks=True)
    assert accepts(after, "\n\n{}")
    assert not accepts(after, "\n\nno")


def test_nothing_to_match():
    assert message_grammar(None, None, thinking=True, blanks=True) is None
    assert calls(ToolFormat.JSON, required=False) is None


HERMES = '<tool_call>\n{"name": "read", "arguments": {"path": "a", "limit": 5}}\n</tool_call>'
HERMES_NOW = '<tool_call>\n{"name": "now", "arguments": {"any": 1}}\n</tool_call>'
XML = (
    "<tool_call>\n<function=read>\n<parameter=path>\na <b>\n\nc\n</parameter>\n<parameter=limit>\n5\n"
    "</parameter>\n<parameter=mode>\ntext\n</parameter>\n<parameter=flags>\n[true]\n</parameter>\n</function>\n</tool_call>"
)
XML_OTHER_ORDER = (
    "<tool_call>\n<function=read>\n<parameter=flags>\n[true]\n</parameter>\n<parameter=path>\na\n</parameter>\n"
    "<parameter=limit>\n5\n</parameter>\n</function>\n</tool_call>"
)
XML_NOW = "<tool_call>\n<function=now>\n</function>\n</tool_call>"
BARE = '{"name": "read", "parameters": {"path": "a"}}'


@pytest.mark.parametrize(
    ("format", "right", "wrong"),
    [
        (
            ToolFormat.HERMES,
            [HERMES, HERMES_NOW, f"{HERMES}\n{HERMES_NOW}"],
            [
                "",
                "Hello",
                f"{HERMES} and",
                HERMES.replace("read", "list"),
                HERMES.replace("5", '"5"'),
                HERMES.replace("5", "500"),
                HERMES.replace("path", "file"),
                HERMES[:-1],
            ],
        ),
        (
            ToolFormat.QWEN3_CODER,
            [XML, XML_NOW, f"{XML}\n{XML_NOW}", XML_OTHER_ORDER],
            [
                "",
                "Hello",
                f"{XML} and",
                XML.replace("read", "list"),
                XML.replace("\n5\n", "\nfive\n"),
                XML.replace("text", "words"),
                XML.replace("=path", "=file"),
                "<tool_call>\n<function=read>\n</function>\n</tool_call>",
                XML[:-1],
            ],
        ),
        (
            ToolFormat.JSON,
            [BARE, BARE.replace("parameters", "arguments")],
            ["", "Hello", BARE.replace("read", "x")],
        ),
    ],
)
def test_required_calls(accepts, format, right, wrong):
    grammar = calls(format)
    assert [text for text in right if not accepts(grammar, text)] == []
    assert [text for text in wrong if accepts(grammar, text)] == []


@pytest.mark.parametrize(
    ("format", "call"),
    [(ToolFormat.HERMES, HERMES), (ToolFormat.QWEN3_CODER, XML), (ToolFormat.QWEN3_CODER, XML[12:-13])],
)
def test_calls_by_choice(accepts, format, call):
    grammar = calls(format, required=False)
    for text in ("", "Hello <b>, a < b", call, f"I read.\n{call}", f"{call}\nand {call} and so on"):
        assert accepts(grammar, text), text
    for text in (call.replace("read", "list"), f"Hi {call[:50]}", f"ends {call[: call.index('read')]}"):
        assert not accepts(grammar, text), text


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize(("format", "call"), [(ToolFormat.HERMES, HERMES), (ToolFormat.QWEN3_CODER, XML)])
def test_one_call_at_most(accepts, format, call, required):
    grammar = calls(format, required=required, parallel=False)
    assert accepts(grammar, call)
    assert not accepts(grammar, f"{call}\n{call}")


def test_content_that_must_match_or_calls(accepts):
    grammar = message_grammar(
        schema({"type": "object"}), rules(ToolFormat.HERMES, required=False), thinking=False, blanks=False
    )
    assert accepts(grammar, "{}")
    assert accepts(grammar, HERMES)
    assert not accepts(grammar, "Hello")


def parameters(*keys):
    return "".join(f"<parameter={key}>\n1\n</parameter>\n" for key in keys)


def test_no_parameter_comes_twice(accepts):
    """A call that repeats one is broken for the parser, so the grammar must not let the model write it."""
    number = {"type": "integer"}
    tool = Tool("f", parameters={"properties": dict.fromkeys("abcd", number), "required": ["b", "d"]})
    grammar = calls(ToolFormat.QWEN3_CODER, tool, parallel=False)

    def allowed(*keys):
        return accepts(grammar, f"<tool_call>\n<function=f>\n{parameters(*keys)}</function>\n</tool_call>")

    every = [order for n in range(6) for order in itertools.product("abcd", repeat=n)]
    right = [
        order
        for order in every
        if len(set(order)) == len(order) and [key for key in order if key in "bd"] == ["b", "d"]
    ]
    assert len(right) == 1 + 2 * 3 + 12
    assert [order for order in every if allowed(*order)] == right


def test_many_optional_parameters_come_in_any_order(accepts):
    tool = Tool("f", parameters={"properties": {key: {"type": "integer"} for key in "abcdefgh"}})
    grammar = calls(ToolFormat.QWEN3_CODER, tool)
    assert accepts(grammar, f"<tool_call>\n<function=f>\n{parameters(*'hgfedcba')}</function>\n</tool_call>")


def test_a_schema_that_requires_no_name(accepts):
    tool = Tool("f", parameters={"properties": {"a": {"type": "integer"}}, "required": [{}, ["a"], 1, None]})
    grammar = calls(ToolFormat.QWEN3_CODER, tool)
    assert accepts(grammar, f"<tool_call>\n<function=f>\n{parameters('a')}</function>\n</tool_call>")


def test_names_with_quotes_and_backslashes(accepts):
    odd = Tool('a"\\b/é', parameters={"type": "object", "properties": {'k"\\é': {"type": "string"}}})
    name = json.dumps(odd.name, ensure_ascii=False)
    call = f'<tool_call>\n{{"name": {name}, "arguments": {{}}}}\n</tool_call>'
    assert accepts(calls(ToolFormat.HERMES, odd), call)
    call = (
        f'<tool_call>\n<function={odd.name}>\n<parameter=k"\\é>\nx\n</parameter>\n</function>\n</tool_call>'
    )
    assert accepts(calls(ToolFormat.QWEN3_CODER, odd), call)
    with pytest.raises(RequestError, match="a>b"):
        calls(ToolFormat.QWEN3_CODER, Tool("a>b"))


def test_the_named_tool():
    assert tools_named([READ, NOW], "now") == (NOW,)
    with pytest.raises(RequestError, match="list"):
        tools_named([READ, NOW], "list")


SCHEMAS = [
    {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}, "required": ["a"]},
    {"enum": ["red", "green", 3]},
    {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}]},
    {"type": "string", "pattern": "^[a-c]{2,4}$"},
    {"type": "integer", "minimum": -5, "maximum": 5},
    {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}},
]


@pytest.mark.parametrize("value", SCHEMAS, ids=range(len(SCHEMAS)))
def test_whatever_is_drawn_is_valid(wander, value):
    grammar = output_grammar(schema(value))
    texts = [wander(grammar, seed) for seed in range(8)]
    ended = [text for text in texts if text is not None]
    assert ended
    for text in ended:
        jsonschema.validate(json.loads(text), value)


@pytest.mark.parametrize("format", [ToolFormat.HERMES, ToolFormat.QWEN3_CODER, ToolFormat.JSON])
def test_whatever_is_drawn_is_read_as_valid_calls(wander, format):
    parser_tools = {tool.name: tool.parameters for tool in (READ, NOW)}
    narrow = Tool(
        "read",
        parameters={
            **READ.parameters,
            "properties": {"limit": {"type": "integer", "maximum": 9}},
            "required": [],
        },
    )
    ended = [text for seed in range(10) if (text := wander(calls(format, narrow), seed)) is not None]
    assert ended
    for text in ended:
        parser = MessageParser(parser_tools)
        pieces = [*parser.feed(text), *parser.finish()]
        names = {type(piece).__name__ for piece in pieces}
        assert names <= {"CallStart", "CallArguments", "CallEnd"}
        arguments = "".join(piece.text for piece in pieces if type(piece).__name__ == "CallArguments")
        decoder = json.JSONDecoder()
        while arguments:
            value, end = decoder.raw_decode(arguments)
            jsonschema.validate(value, narrow.parameters)
            arguments = arguments[end:]
