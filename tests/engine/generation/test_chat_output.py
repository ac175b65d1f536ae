"""Assistant messages from token to delta: content, reasoning, calls, stops, constraints and budgets."""

import json

import numpy as np
import pytest

from engine.errors import RequestError
from engine.types import (
    ChatMessage,
    ChatRequest,
    Constraint,
    ConstraintKind,
    FinishReason,
    TextDelta,
    Timing,
    Tool,
    ToolCall,
    ToolChoice,
)

USER = (ChatMessage("user", "Do."),)
READ = Tool("read", parameters={"type": "object", "properties": {"path": {"type": "string"}}})
CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "a.py"}}\n</tool_call>'
OBJECT = Constraint(ConstraintKind.JSON_OBJECT)


@pytest.fixture
def chat(prompting_for, run_script):
    """chat(text, max_tokens, prompting=..., **request): what comes out when the model wants to write text."""
    shared = prompting_for()

    def run(text, tokens=1000, *, prompting=None, context=4096, messages=USER, **options):
        request = ChatRequest(messages, **{"max_tokens": 1000, **options})
        prompting = prompting or shared
        return run_script(prompting, prompting.chat(request, context), text, tokens)

    return run


def test_content(chat):
    run = chat("Hello there.")
    assert (run.content, run.reasoning, run.calls, run.finish) == ("Hello there.", "", [], FinishReason.STOP)
    assert len(run.deltas) > 2
    assert sum(delta.tokens for delta in run.deltas) == len(run.generated)


def test_a_call(chat):
    run = chat(f"I read.\n{CALL}", tools=(READ,))
    ((id, name, arguments),) = run.calls
    assert (run.content, name, json.loads(arguments)) == ("I read.", "read", {"path": "a.py"})
    assert id.startswith("call_")
    assert run.finish is FinishReason.TOOL_CALLS
    assert sum(delta.tokens for delta in run.deltas) == len(run.generated)
    assert sum(bool(delta.tool_calls) for delta in run.deltas) > 3, "arguments come piece by piece"


def test_calls_have_their_own_ids(chat):
    run = chat(f"{CALL}\n{CALL}", tools=(READ,))
    assert len({id for id, _, _ in run.calls}) == 2


def test_without_tools_a_call_is_text(chat):
    assert chat(CALL).content == CALL
    run = chat(CALL, tools=(READ,), tool_choice=ToolChoice.NONE)
    assert (run.content, run.finish) == (CALL, FinishReason.STOP)


@pytest.mark.parametrize("tokens", range(1, 40, 3))
def test_a_call_cut_off_is_never_told_as_one_to_run(chat, tokens):
    run = chat(f"I read.\n{CALL}", tokens, tools=(READ,))
    assert run.finish is (FinishReason.LENGTH if len(run.generated) == tokens else FinishReason.TOOL_CALLS)


def test_a_part_of_a_call_beside_a_whole_one(chat):
    broken = '<tool_call>\n{"name": "read", "arguments": {"path": '
    # Without a constraint, as the tool's name is not one that a grammar could hold here.
    run = chat(f"```json\n{CALL[12:-13]}\n```\n```json\n{broken[12:]}", tools=(READ,))
    assert len(run.calls) == 2
    assert run.finish is FinishReason.STOP


def test_only_one_call_where_only_one_is_wanted(chat):
    run = chat(f"{CALL}\n{CALL}", tools=(READ,), parallel_tool_calls=False)
    assert len(run.calls) == 1
    assert run.finish is FinishReason.TOOL_CALLS


def test_required_calls_come_whatever_the_model_wants(chat):
    for choice in (ToolChoice.REQUIRED, ToolChoice.NAMED):
        run = chat("No, thanks.", 60, tools=(READ, Tool("now")), tool_choice=choice, named_tool="read")
        assert run.content == ""
        assert run.generated[0] == run_token(run, "<tool_call>")


def run_token(run, text):
    return run.prompt.output._tokens._tokenizer.id_of(text)


def test_calls_by_choice_keep_to_the_tools(chat):
    run = chat('<tool_call>\n{"name": "list", "arguments": {}}\n</tool_call>', 40, tools=(READ,))
    assert [name for _, name, _ in run.calls] == ["read"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tool_choice": ToolChoice.REQUIRED}, "no tools"),
        ({"tools": (READ,), "tool_choice": ToolChoice.NAMED, "named_tool": "list"}, "list"),
        ({"tools": (READ, READ)}, "name of its own"),
        (
            {"tools": (READ,), "tool_choice": ToolChoice.REQUIRED, "constraint": None, "thinking": True},
            "thinking",
        ),
        ({"constraint": Constraint(ConstraintKind.JSON_SCHEMA, '{"if": {}}')}, "if"),
        ({"top_logprobs": 1000}, "top_logprobs"),
        ({"stop": tuple(f"s{n}" for n in range(10_000))}, "stop strings"),
    ],
    ids=range(7),
)
def test_what_cannot_be_served_is_refused(chat, options, words):
    with pytest.raises(RequestError, match=words):
        chat("x", **options)


def test_tools_need_a_template_that_has_them(prompting_for):
    plain = prompting_for("{% for m in messages %}{{ m.content }}{% endfor %}")
    with pytest.raises(RequestError, match="no place for tools"):
        plain.chat(ChatRequest(USER, tools=(READ,)), 4096)
    assert plain.tool_format == ""
    assert prompting_for().tool_format == "hermes"


def test_tools_that_no_grammar_can_hold_are_offered_all_the_same(chat):
    odd = Tool("read", parameters={"$ref": "#/nowhere"})
    assert len(chat(CALL, tools=(odd,)).calls) == 1
    with pytest.raises(RequestError, match="nowhere"):
        chat(CALL, tools=(odd,), tool_choice=ToolChoice.REQUIRED)


def test_constrained_content(chat):
    run = chat('{"a": [1, 2]}', constraint=OBJECT)
    assert (run.content, run.finish) == ('{"a": [1, 2]}', FinishReason.STOP)
    run = chat("Sure! Here it is: {}", 30, constraint=OBJECT)
    assert run.content.startswith("{")
    regex = Constraint(ConstraintKind.REGEX, "yes|no")
    assert chat("maybe", constraint=regex).content in ("yes", "no")


def test_constrained_output_may_look_like_a_call(chat):
    text = '{"name": "read", "arguments": {"path": "a"}}'
    run = chat(text, constraint=OBJECT, tools=(READ,))
    assert (run.content, run.calls) == (text, [])


def test_stop_strings_count_in_content_only(chat, prompting_for, templates):
    run = chat("one two three", stop=("three", "two"))
    assert (run.content, run.deltas[-1].stop, run.finish) == ("one ", "two", FinishReason.STOP)
    assert all(delta.stop == "" for delta in run.deltas[:-1])
    run = chat(CALL, tools=(READ,), stop=("a.py", "name", "\n"))
    assert run.finish is FinishReason.TOOL_CALLS
    thinking = prompting_for(templates.thinking)
    run = chat("<think>\na stop b\n</think>\n\nc stop d", prompting=thinking, stop=("stop",))
    assert (run.reasoning, run.content) == ("a stop b", "c ")
    # Text held back for a stop string is not lost when something else follows.
    run = chat(f"I st\n{CALL}", tools=(READ,), stop=("stop",))
    assert run.content == "I st"


def test_reasoning_is_apart(chat, prompting_for, templates):
    for template, text in (
        (templates.thinking, "<think>\nhm\n</think>\n\nHi"),
        (templates.opened, "hm\n</think>\n\nHi"),
    ):
        run = chat(text, prompting=prompting_for(template))
        assert (run.reasoning, run.content) == ("hm", "Hi")
        assert sum(delta.tokens for delta in run.deltas) == len(run.generated)


def test_timing_is_passed_on(prompting_for):
    prompt = prompting_for().chat(ChatRequest(USER), 4096)
    timing = Timing(1, 0, 0.0, 0.0, 0.0, 1)
    row = np.zeros(prompting_for()._tokenizer.vocab_size, np.float32)
    row[prompting_for()._tokenizer.encode("a")[0]] = 1
    prompt.output.draw(row, [])
    (first,) = prompt.deltas(TextDelta("a", timing=timing))
    assert (first.text, first.timing, first.finish) == ("a", timing, None)
    (last,) = prompt.deltas(TextDelta("", finish=FinishReason.CANCELLED, timing=timing))
    assert (last.finish, last.timing) == (FinishReason.CANCELLED, timing)


LONG = "hm " * 200


@pytest.mark.parametrize("opened", [True, False])
def test_the_thinking_budget_closes_the_reasoning(chat, prompting_for, templates, opened):
    prompting = prompting_for(templates.opened if opened else templates.thinking)
    free = chat(LONG if opened else f"<think>\n{LONG}", 300, prompting=prompting, max_tokens=10_000)
    assert free.content == ""
    run = chat(
        LONG if opened else f"<think>\n{LONG}",
        300,
        prompting=prompting,
        thinking_budget=20,
        max_tokens=10_000,
    )
    assert len(run.reasoning) < 21 * 3
    assert "hm hm" in run.content
    closing = prompting._tokenizer.encode("\n</think>\n\n")
    at = 20 if opened else 20 + len(prompting._tokenizer.encode("<think>"))
    assert run.generated[at : at + len(closing)] == closing


def test_room_is_kept_for_the_reply(chat, prompting_for, templates):
    run = chat(LONG, 100, prompting=prompting_for(templates.opened), max_tokens=100)
    assert run.reasoning
    assert run.content.startswith("hm")
    # The window may leave less than the request asks for.
    prompting = prompting_for(templates.opened)
    size = len(prompting.chat(ChatRequest(USER), 4096).ids)
    run = chat(LONG, 100, prompting=prompting, max_tokens=10_000, context=size + 100)
    assert run.content.startswith("hm")


def test_thinking_can_be_turned_off(chat, prompting_for, templates):
    run = chat("Hi", prompting=prompting_for(templates.opened), thinking=False)
    assert (run.reasoning, run.content) == ("", "Hi")
    # A template without a switch: reasoning is closed as soon as it begins.
    run = chat(f"<think>{LONG}", 50, prompting=prompting_for(templates.thinking), thinking=False)
    assert run.reasoning == ""


def test_optional_thinking_asks_nothing_of_a_model_that_cannot(chat, prompting_for, templates):
    run = chat("Hi", thinking=True, thinking_optional=True, thinking_budget=20)
    assert (run.reasoning, run.content) == ("", "Hi")
    assert run.prompt.ids == chat("Hi").prompt.ids
    assert not prompting_for().thinks
    # Of one that can, it is asked as ever.
    thinking = prompting_for(templates.thinking)
    run = chat("<think>\nhm\n</think>\n\nHi", prompting=thinking, thinking=True, thinking_optional=True)
    assert (run.reasoning.strip(), run.content) == ("hm", "Hi")
    assert thinking.thinks


def test_a_constraint_holds_after_free_reasoning(chat, prompting_for, templates):
    for template, text in (
        (templates.thinking, '<think>\n"hm"\n</think>\n\n{"a": 1}'),
        (templates.opened, "hm\n</think>\n\n{}"),
    ):
        run = chat(text, prompting=prompting_for(template), constraint=OBJECT)
        assert run.reasoning.strip('"') == "hm"
        assert json.loads(run.content) in ({"a": 1}, {})
    run = chat("hm\n</think>\n\nSure, {}", 40, prompting=prompting_for(templates.opened), constraint=OBJECT)
    assert run.content.startswith("{")


def test_the_end_inside_reasoning_does_not_skip_the_constraint(chat, prompting_for, templates):
    run = chat(
        "hm",
        100,
        prompting=prompting_for(templates.opened),
        constraint=Constraint(ConstraintKind.REGEX, "yes"),
    )
    assert (run.reasoning, run.content, run.finish) == ("hm", "yes", FinishReason.STOP)


def test_log_probabilities_cover_content_alone(chat, prompting_for, templates):
    run = chat(f"Hello.\n{CALL}", tools=(READ,), top_logprobs=3)
    assert (
        b"".join(entry.bytes for delta in run.deltas for entry in delta.logprobs).rstrip(b"\n") == b"Hello."
    )
    assert all(len(entry.top) == 3 for delta in run.deltas for entry in delta.logprobs)
    run = chat("<think>\nhm\n</think>\n\nHi", prompting=prompting_for(templates.thinking), top_logprobs=0)
    assert b"".join(entry.bytes for delta in run.deltas for entry in delta.logprobs).endswith(b"Hi")
    assert all(not delta.logprobs for delta in run.deltas if delta.reasoning)
    assert not any(delta.logprobs for delta in chat("Hello.").deltas)


def replay(run, **changes):
    calls = tuple(
        ToolCall(id, name, changes.get("arguments", arguments)) for id, name, arguments in run.calls
    )
    return (
        *USER,
        ChatMessage("assistant", run.content, tool_calls=calls),
        ChatMessage("tool", "text", tool_call_id=calls[0].id),
    )


def test_a_replayed_call_is_the_very_tokens_that_were_written(prompting_for, run_script):
    prompting = prompting_for()
    # Blanks that no template writes, so that rendering it anew would differ.
    text = 'I read.\n\n<tool_call>{"name":"read",  "arguments":{"path" :"a.py"}}</tool_call>'
    run = run_script(prompting, prompting.chat(ChatRequest(USER, tools=()), 4096), text)
    assert run.calls == []
    odd = Tool("read", parameters={"$ref": "#/nowhere"})  # not constrained, so free in its blanks
    run = run_script(prompting, prompting.chat(ChatRequest(USER, tools=(odd,)), 4096), text)
    assert run.finish is FinishReason.TOOL_CALLS

    again = prompting.chat(ChatRequest(replay(run), tools=(odd,)), 4096).ids
    assert list(again[: len(run.tokens)]) == run.tokens
    # Written another way, but the same: as clients do.
    again = prompting.chat(ChatRequest(replay(run, arguments='{"path": "a.py"}'), tools=(odd,)), 4096).ids
    assert list(again[: len(run.tokens)]) == run.tokens
    assert prompting.count(ChatRequest(replay(run), tools=(odd,))) == len(again)
    changed = prompting.chat(ChatRequest(replay(run, arguments='{"path": "b.py"}'), tools=(odd,)), 4096).ids
    assert list(changed[: len(run.tokens)]) != run.tokens


def test_a_replayed_call_brings_its_reasoning(prompting_for, run_script, templates):
    prompting = prompting_for(templates.opened)
    request = ChatRequest(USER, tools=(READ,))
    run = run_script(prompting, prompting.chat(request, 4096), f"hm\n</think>\n\n{CALL}")
    assert run.finish is FinishReason.TOOL_CALLS
    again = prompting.chat(ChatRequest(replay(run), tools=(READ,)), 4096).ids
    assert list(again[: len(run.tokens)]) == run.tokens


def test_a_message_with_control_tokens_is_not_kept(prompting_for, run_script, templates):
    prompting = prompting_for()
    odd = Tool("read", parameters={"$ref": "#/nowhere"})
    prompt = prompting.chat(ChatRequest(USER, tools=(odd,)), 4096)
    start = prompting._tokenizer.id_of("<|im_start|>")
    prompt.output._generated.append(start)
    run = run_script(prompting, prompt, CALL)
    again = prompting.chat(ChatRequest(replay(run), tools=(odd,)), 4096).ids
    assert again.count(start) == 4
