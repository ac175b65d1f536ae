"""Reasoning apart from content."""

import pytest

from engine.chat import MessageParser, ToolFormat, detect_format


def test_reasoning_then_content(parse):
    parsed = parse("<think>\nHm.\n\nYes.\n</think>\n\nThe answer.", thinks=True)
    assert (parsed.reasoning, parsed.content) == ("Hm.\n\nYes.", "The answer.")


def test_a_prompt_that_opened_the_reasoning(parse):
    parsed = parse("Hm.\n</think>\n\nThe answer.", open_reasoning=True)
    assert (parsed.reasoning, parsed.content) == ("Hm.", "The answer.")
    # Some models open it once more.
    assert parse("<think>\nHm.\n</think>\nA.", open_reasoning=True).reasoning == "Hm."


def test_reasoning_cut_off(parse):
    parsed = parse("<think>\nHm. </thi", thinks=True, cut=True)
    assert (parsed.reasoning, parsed.content) == ("Hm. </thi", "")


def test_calls_inside_reasoning_are_thoughts(parse):
    parsed = parse('<think><tool_call>{"name": "now"}</tool_call></think>ok', thinks=True)
    assert parsed.calls == []
    assert parsed.content == "ok"


def test_a_call_right_after_the_reasoning(parse):
    parsed = parse('<think>\nx\n</think>\n\n<tool_call>{"name": "now"}</tool_call>', thinks=True)
    assert parsed.values == [("now", {})]


@pytest.mark.parametrize("text", ["Use <think> and </think> tags.", "</think>", "a <think>b</think>"])
def test_tags_later_in_the_message_are_text(parse, text):
    assert parse(text, thinks=True).content == text


def test_models_that_do_not_think(parse):
    assert parse("<think>x</think>").content == "<think>x</think>"


def test_where_the_parser_is():
    parser = MessageParser({}, thinks=True)
    states = []
    for piece in ("<think>", "Hm.", "</think>", "\n\nA"):
        parser.feed(piece)
        states.append(parser.reasoning)
    assert states == [True, True, False, False]


@pytest.mark.parametrize(
    ("template", "tools", "thinks"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", ToolFormat.NONE, False),
        ('{{ tools }}<tool_call>\n{"name": ...}</tool_call>', ToolFormat.HERMES, False),
        (r"{{ tools }}{{ '<tool_call>\n{\"name\": ...}</tool_call>' }}", ToolFormat.HERMES, False),
        ("{{ tools }}<tool_call>NAME\n<arg_key>", ToolFormat.JSON, False),
        ("{{ tools }}<tool_call>\n<function=x>\n<parameter=y>", ToolFormat.QWEN3_CODER, False),
        ("{% if tools %}{{ tools | tojson }}{% endif %}", ToolFormat.JSON, False),
        ("<tool_call>{\"name\": {{ '<think>\n\n</think>' }}", ToolFormat.HERMES, True),
    ],
)
def test_the_format_is_read_from_the_template(template, tools, thinks):
    found = detect_format(template)
    assert (found.tools, found.thinks) == (tools, thinks)
