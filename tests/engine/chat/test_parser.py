"""Tool calls as models write them: well, badly, in pieces, and cut off."""

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.chat import CallArguments, CallStart, Content, MessageParser

READ = '{"name": "read", "arguments": {"path": "a.py", "limit": 5}}'
VALUES = [("read", {"path": "a.py", "limit": 5})]
XML = "<function=read>\n<parameter=path>\na.py\n</parameter>\n<parameter=limit>\n5\n</parameter>\n</function>"

IN_A_STRING = json.dumps(json.dumps(VALUES[0][1]))
UNENDED = XML.replace("\n</parameter>", "", 1)

SPELLINGS = {
    "hermes": f"<tool_call>\n{READ}\n</tool_call>",
    "hermes without line ends": f"<tool_call>{READ}</tool_call>",
    "hermes without an end": f"<tool_call>\n{READ}",
    "hermes, a brace too many": f"<tool_call>\n{READ}}}\n</tool_call>",
    "hermes, a brace too few": f"<tool_call>\n{READ[:-1]}\n</tool_call>",
    "arguments first": '<tool_call>{"arguments": {"path": "a.py", "limit": 5}, "name": "read"}</tool_call>',
    "parameters": f"<tool_call>{READ.replace('arguments', 'parameters')}</tool_call>",
    "with an id": f'<tool_call>{{"id": "1", "type": "function", {READ[1:]}</tool_call>',
    "arguments in a string": f'<tool_call>{{"name": "read", "arguments": {IN_A_STRING}}}</tool_call>',
    "qwen3_coder": f"<tool_call>\n{XML}\n</tool_call>",
    "qwen3_coder on one line": f"<tool_call>{XML}</tool_call>".replace("\n", ""),
    "no outer tag": XML,
    "no outer tag at the front": f"{XML}\n</tool_call>",
    "no end of the function": f"<tool_call>\n{XML.removesuffix('</function>')}</tool_call>",
    "no end of a parameter": f"<tool_call>\n{UNENDED}\n</tool_call>",
    "no end of the last parameter": f"<tool_call>\n{XML[:-24]}</function>\n</tool_call>",
    "fenced": f"```json\n{READ}\n```",
    "fenced without a name": f"```\n{READ}\n```",
    "fenced without an end": f"```json\n{READ}",
    "bare": READ,
    "bare with blanks": f"\n{READ}\n",
    "bare with parameters": READ.replace("arguments", "parameters"),
}


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_every_spelling_is_one_call(parse, text):
    parsed = parse(text)
    assert parsed.values == VALUES
    assert parsed.content == ""


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_every_spelling_in_single_characters(parse, text):
    assert parse(text, range(len(text))) == parse(text)


def test_text_before_between_and_after(parse):
    hermes, xml = SPELLINGS["hermes"], SPELLINGS["qwen3_coder"]
    parsed = parse(f"I read.\n{hermes}\n\nAnd:\n\n{xml}\nDone.")
    assert parsed.values == VALUES * 2
    assert parsed.content == "I read.\n\nAnd:\nDone."


def test_several_calls(parse):
    assert parse("\n".join([SPELLINGS["hermes"]] * 3)).values == VALUES * 3
    assert parse("\n".join([READ, READ])).values == VALUES * 2


def test_text_before_a_fenced_call(parse):
    parsed = parse(f"I will read:\n```json\n{READ}\n```\n")
    assert parsed.values == VALUES
    assert parsed.content == "I will read:"


def test_a_call_without_arguments(parse):
    assert parse('<tool_call>\n{"name": "now"}\n</tool_call>').values == [("now", {})]
    assert parse('<tool_call>\n{"name": "now", "arguments": null}\n</tool_call>').values == [("now", {})]
    assert parse("<tool_call>\n<function=now>\n</function>\n</tool_call>").values == [("now", {})]
    # A bare object needs its arguments to be told from any other JSON.
    assert parse('{"name": "now"}').content == '{"name": "now"}'


TEXTS = [
    "Plain text with <b>tags</b>, a < b and `code`.",
    "```python\nprint('<tool_call>')\n```\n",
    '```json\n{"name": "read"}\n```',
    '```json\n{"name": "other", "arguments": {}}\n```',
    '{"name": "Ann", "arguments": {}}',
    '{"other": 1}',
    "<tool_call> is how calls begin",
    "<tool_call>",
    "<function=",
    "<function=unknown>\n<parameter=a>\n1\n</parameter>\n</function>",
    '<tool_call>\n{"name": "unknown", "arguments": {"a": 1}}\n</tool_call> and on',
    f'<tool_call>\n{{"name": "unknown", "arguments": {{"a": "<tool_call>{READ}"}}}}\n</tool_call>',
    "<tool_call>\n<function=unknown>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
    "  \n ",
    "",
    "</tool_call></function></parameter>",
    "a trailing <",
    "``",
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_no_call_of_an_offered_tool_stays_text(parse, text):
    parsed = parse(text)
    assert parsed.content == text
    assert parsed.calls == []
    assert parse(text, range(len(text))) == parsed


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_without_tools_everything_is_text(parse, text):
    assert parse(text, tools={}).content == text


def test_bare_calls_can_be_turned_off(parse):
    assert parse(READ, bare=False).content == READ


def test_names_and_arguments_come_while_they_are_written():
    parser = MessageParser({"read": {}})
    assert parser.feed('<tool_call>\n{"name": "read"') == [CallStart("read")]
    assert parser.feed(', "arguments": {"path": "a') == [CallArguments('{"path": "a')]
    assert parser.feed("b\\n") == [CallArguments("b\\n")]
    assert parser.in_call


def test_raw_strings_come_while_they_are_written():
    parser = MessageParser({"write": {"properties": {"text": {"type": "string"}}}})
    assert parser.feed("Hi <tool_call><function=write>") == [
        Content("Hi"),
        CallStart("write"),
        CallArguments("{"),
    ]
    assert parser.feed("\n<parameter=text>\nfirst ") == [CallArguments('"text": "first ')]
    assert parser.feed('"line"\n') == [CallArguments('\\"line\\"')]
    assert parser.feed("second") == [CallArguments("\\nsecond")]


def xml_call(**values):
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function=write>\n{inner}</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("key", "raw", "value"),
    [
        ("path", "5", "5"),
        ("path", "null", "null"),
        ("path", "", ""),
        ("path", "\n\na\n\n", "\n\na\n\n"),
        ("text", 'a "quoted" \\ text\twith\ncontrols\x01', 'a "quoted" \\ text\twith\ncontrols\x01'),
        ("force", "true", True),
        ("force", "False", False),
        ("force", "maybe", "maybe"),
        ("lines", '[1, "two", {"three": 3}]', [1, "two", {"three": 3}]),
        ("lines", "[1, ", "[1, "),
        ("ratio", "0.5", 0.5),
        ("ratio", " 7 ", 7),
        ("ratio", "NaN", "NaN"),
        ("ratio", "9" * 5000, "9" * 5000),
        ("note", "null", None),
        ("note", "nullable", "nullable"),
        ("note", "nu", "nu"),
        ("either", "5", 5),
        ("either", "five", "five"),
        ("kind", "2", 2),
        ("free", "5", "5"),
        ("unknown", "5", "5"),
    ],
)
def test_raw_values_take_the_types_of_the_schema(parse, key, raw, value):
    text = xml_call(**{key: raw})
    assert parse(text).values == [("write", {key: value})]
    assert parse(text, range(len(text))) == parse(text)


@pytest.mark.parametrize(
    "raw",
    [
        "<a href='x'>&amp;</a>",
        "see </parameter> for the end",
        "<parameter=other> is how a parameter begins",
        "</function>",
        "<parameter>\n</parameter",
        "a\n</function>\nb",
        "<tool_call>\n<function=read>",
        "</tool_call>",
        "if a < b:\n    pass",
    ],
)
def test_tags_inside_values_are_text(parse, raw):
    text = xml_call(path="x", text=raw)
    assert parse(text).values == [("write", {"path": "x", "text": raw})]
    assert parse(text, range(len(text))) == parse(text)


def test_raw_line_ends_in_json_strings_are_escaped(parse):
    text = '<tool_call>{"name": "read", "arguments": {"path": "a\nb\tc"}}</tool_call>'
    assert parse(text).values == [("read", {"path": "a\nb\tc"})]


def test_broken_arguments_are_no_whole_call(parse):
    parsed = parse('<tool_call>{"name": "read", "arguments": {"path": oops</tool_call> then')
    assert parsed.calls == [("read", '{"path": oops', False)]
    assert parsed.content == " then"


MESSAGE = (
    "<think>\nI need <b>two</b> calls: `<tool_call>`.\n</think>\n\nReading.\n"
    + SPELLINGS["hermes"]
    + "\n"
    + xml_call(path="é", text="a </parameter> b\n<parameter=no>", lines="[1]", note="null")
    + "\n"
    + SPELLINGS["fenced"]
    + "\nThe end <"
)


def test_a_message_with_everything(parse):
    parsed = parse(MESSAGE, thinks=True)
    assert parsed.reasoning == "I need <b>two</b> calls: `<tool_call>`."
    assert parsed.content == "Reading.\nThe end <"
    written = {"path": "é", "text": "a </parameter> b\n<parameter=no>", "lines": [1], "note": None}
    assert parsed.values == [VALUES[0], ("write", written), VALUES[0]]


@given(cuts=st.lists(st.integers(0, len(MESSAGE)), max_size=40))
def test_the_result_does_not_depend_on_the_cuts(parse, cuts):
    assert parse(MESSAGE, cuts, thinks=True) == parse(MESSAGE, thinks=True)


@pytest.mark.parametrize("text", [SPELLINGS["hermes"], SPELLINGS["qwen3_coder"], SPELLINGS["fenced"], READ])
def test_truncated_at_every_position_no_partial_call_is_whole(parse, text):
    last = text.rindex("}" if "{" in text else "</function>")
    for end in range(last):
        parsed = parse(text[:end], cut=True)
        assert not any(closed for _, _, closed in parsed.calls)
        for _, arguments, _ in parsed.calls:
            if "{" not in text:  # in the raw format, only the function's end makes the arguments whole
                with pytest.raises(ValueError):
                    json.loads(arguments)


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "fenced"])
def test_a_call_cut_off_inside_its_closing_tag_is_not_whole(parse, name):
    text = SPELLINGS[name]
    for end in range(text.rindex("}" if "{" in text else "</function>"), len(text)):
        assert not any(closed for _, _, closed in parse(text[:end], cut=True).calls)
    assert parse(text, cut=True).values == VALUES


@pytest.mark.parametrize("text", ["<function=read><parameter=KEY", "<function=read><parameter=KEY\n"])
def test_a_key_cut_off_or_broken_is_given_as_far_as_it_came(parse, text):
    assert parse(text).calls == [("read", '{"KEY', False)]


def test_a_call_that_gives_a_parameter_twice_is_not_whole(parse):
    text = (
        "<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n<parameter=path>\nb\n</parameter>\n"
    )
    parsed = parse(text + "</function>\n</tool_call>")
    assert parsed.calls == [("read", '{"path": "a", "path', False)]


def test_a_value_cut_off_is_given_as_far_as_it_came(parse):
    parsed = parse("<tool_call>\n<function=write>\n<parameter=text>\nabc\nde", cut=True)
    assert parsed.calls == [("write", '{"text": "abc\\nde', None)] or parsed.calls == [
        ("write", '{"text": "abc\\nde', False)
    ]


FRAGMENTS = st.sampled_from(
    [
        "<tool_call>", "</tool_call>", "<function=read>", "<function=", "</function>", "<parameter=path>",
        "<parameter=", "</parameter>", "```json\n", "```", READ, '{"name": "read"', ', "arguments": ',
        "{", "}", "[", "]", '"', "\\", ":", ",", "\n", " ", "<", ">", "\x00", "\x1b", "é", "<think>",
        "</think>", "null",
        '{"arguments": {"path": 1}, "name": "read"}',
    ]
)  # fmt: skip
WORDS = st.text(string.ascii_uppercase, min_size=1, max_size=3)


@settings(deadline=None, max_examples=300)
@given(
    parts=st.lists(st.one_of(FRAGMENTS, WORDS), max_size=25),
    data=st.data(),
    thinks=st.booleans(),
    cut=st.booleans(),
)
def test_hostile_text_loses_no_word_and_does_not_depend_on_cuts(parse, parts, data, thinks, cut):
    text = "".join(parts)
    parsed = parse(text, thinks=thinks, cut=cut)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=10))
    assert parse(text, cuts, thinks=thinks, cut=cut) == parsed

    words = "".join(filter(str.isupper, text))
    kept = (
        parsed.reasoning + parsed.content + "".join(name + arguments for name, arguments, _ in parsed.calls)
    )
    # Sorted, since content after a call is gathered before its arguments.
    assert sorted(filter(str.isupper, kept)) == sorted(words)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>" * 10_000,
        '<tool_call>{"arguments": ' * 4_000,
        "```json\n{" * 10_000,
        "<tool_call><function=read><parameter=path>" + "</parameter> " * 10_000,
        "<tool_call><function=read><parameter=path></parameter>" + " " * 100_000,
        '{"name": "read", "arguments": ' + "[" * 40_000,
        '<tool_call>{"name": "read", "arguments": ' + '{"a":' * 20_000,
        "<" * 60_000,
        "\n" * 60_000,
    ],
    ids=range(9),
)
def test_hostile_text_of_any_size_is_read_in_one_pass(parse, text):
    parse(text, range(0, len(text), 7))
