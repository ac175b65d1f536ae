"""Messages by Anthropic's own client, and bodies in every form that is documented."""

import json

import anthropic
import pytest

from engine.errors import EngineBusy, EngineUnavailable, PromptTooLong
from engine.types import (
    ChatDelta,
    ChatMessage,
    ConstraintKind,
    FinishReason,
    ToolCall,
    ToolCallDelta,
    ToolChoice,
)

USER = [{"role": "user", "content": "x"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"name": "weather", "description": "d", "input_schema": SCHEMA}
OTHER = {"name": "time", "input_schema": {"type": "object"}}


@pytest.fixture
def client(server):
    return anthropic.AsyncAnthropic(
        base_url=server.url, api_key="none", max_retries=0, http_client=server.client()
    )


@pytest.fixture
def long_script(engine):
    engine.chats = [
        ChatDelta(reasoning="Let me ", tokens=2),
        ChatDelta(reasoning="see.", tokens=1),
        ChatDelta("Hel", tokens=1),
        ChatDelta("lo", tokens=1),
        ChatDelta(tool_calls=(ToolCallDelta(0, "call_1", "weather"),)),
        ChatDelta(tool_calls=(ToolCallDelta(0, arguments='{"city": '),)),
        ChatDelta(tool_calls=(ToolCallDelta(0, arguments='"Oslo"}'),)),
        ChatDelta(tool_calls=(ToolCallDelta(1, "call_2", "time", "{}"),)),
        ChatDelta(finish=FinishReason.TOOL_CALLS, timing=engine.chats[-1].timing),
    ]


def check_long(message):
    thinking, text, first, second = message.content
    assert thinking.thinking == "Let me see."
    assert text.text == "Hello"
    assert (first.id, first.name, first.input) == ("call_1", "weather", {"city": "Oslo"})
    assert (second.id, second.name, second.input) == ("call_2", "time", {})
    assert message.stop_reason == "tool_use"
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (6, 4, 3)


async def test_a_message(client, engine):
    message = await client.messages.create(model="tiny", max_tokens=9, messages=USER, system="Be brief.")
    assert message.content[0].text == "Hello"
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    assert engine.request.messages == (ChatMessage("system", "Be brief."), ChatMessage("user", "x"))
    assert (engine.request.max_tokens, engine.request.thinking) == (9, False)


async def test_every_kind_of_block(client, long_script):
    check_long(await client.messages.create(model="tiny", max_tokens=9, messages=USER, tools=[TOOL, OTHER]))


async def test_a_stream(client, long_script):
    options = {"model": "tiny", "max_tokens": 9, "messages": USER, "tools": [TOOL, OTHER]}
    async with client.messages.stream(**options) as stream:
        events = [event async for event in stream]
        check_long(await stream.get_final_message())
    raw = [event for event in events if event.type not in ("text", "thinking", "signature", "input_json")]
    assert [(event.type, getattr(event, "index", None)) for event in raw] == [
        ("message_start", None),
        ("content_block_start", 0),
        ("content_block_delta", 0),
        ("content_block_delta", 0),
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
        ("content_block_delta", 1),
        ("content_block_stop", 1),
        ("content_block_start", 2),
        ("content_block_delta", 2),
        ("content_block_delta", 2),
        ("content_block_stop", 2),
        ("content_block_start", 3),
        ("content_block_delta", 3),
        ("content_block_stop", 3),
        ("message_delta", None),
        ("message_stop", None),
    ]
    pieces = [
        event.delta.partial_json
        for event in raw
        if getattr(getattr(event, "delta", None), "type", "") == "input_json_delta"
    ]
    assert pieces == ['{"city": ', '"Oslo"}', "{}"]


async def test_why_it_stopped(client, engine):
    timing = engine.chats[-1].timing
    engine.chats = [ChatDelta("a", finish=FinishReason.STOP, stop="END", timing=timing)]
    message = await client.messages.create(model="tiny", max_tokens=9, messages=USER, stop_sequences=["END"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")
    assert engine.request.stop == ("END",)
    engine.chats = [ChatDelta("a", finish=FinishReason.LENGTH, timing=timing)]
    message = await client.messages.create(model="tiny", max_tokens=9, messages=USER)
    assert message.stop_reason == "max_tokens"


async def test_a_tool_call_that_was_cut_off_is_still_a_message(client, engine):
    call = ToolCallDelta(0, "c", "weather", '{"city": "Os')
    engine.chats = [ChatDelta(tool_calls=(call,), finish=FinishReason.LENGTH, timing=engine.chats[-1].timing)]
    message = await client.messages.create(model="tiny", max_tokens=9, messages=USER, tools=[TOOL])
    assert (message.content[0].input, message.stop_reason) == ({}, "max_tokens")


async def test_counting_tokens(client, engine):
    counted = await client.messages.count_tokens(model="tiny", messages=USER, system="s", tools=[TOOL])
    assert counted.input_tokens == 42
    assert engine.request.tools[0].name == "weather"


@pytest.mark.parametrize(
    ("choice", "expected", "named", "parallel"),
    [
        (None, ToolChoice.AUTO, "", True),
        ({"type": "auto"}, ToolChoice.AUTO, "", True),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice.AUTO, "", False),
        ({"type": "any"}, ToolChoice.REQUIRED, "", True),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice.REQUIRED, "", False),
        ({"type": "tool", "name": "time"}, ToolChoice.NAMED, "time", True),
        ({"type": "none"}, ToolChoice.NONE, "", True),
    ],
)
async def test_every_form_of_tool_choice(ask, engine, choice, expected, named, parallel):
    body = {"model": "tiny", "max_tokens": 9, "messages": USER, "tools": [TOOL, OTHER], "tool_choice": choice}
    response = await ask("/v1/messages", body)
    assert response.status_code == 200, response.text
    request = engine.request
    assert (request.tool_choice, request.named_tool, request.parallel_tool_calls) == (
        expected,
        named,
        parallel,
    )


CACHE = {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "a", "cache_control": CACHE},
                        {"type": "text", "text": "b"},
                    ],
                }
            ],
            [ChatMessage("user", "a\nb")],
        ),
        ([{"role": "system", "content": "s"}, *USER], [ChatMessage("system", "s"), ChatMessage("user", "x")]),
        (
            [
                *USER,
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": ""},
                        {"type": "redacted_thinking", "data": "zzz"},
                        {"type": "text", "text": "I ask."},
                        {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Ås"}},
                        {"type": "tool_use", "id": "b", "name": "time", "input": {}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "a",
                            "content": [{"type": "text", "text": "rain"}],
                        },
                        {"type": "tool_result", "tool_use_id": "b", "content": "no clock", "is_error": True},
                        {"type": "text", "text": "Well?"},
                    ],
                },
            ],
            [
                ChatMessage("user", "x"),
                ChatMessage(
                    "assistant",
                    "I ask.",
                    reasoning="hm",
                    tool_calls=(ToolCall("a", "weather", '{"city": "Ås"}'), ToolCall("b", "time", "{}")),
                ),
                ChatMessage("tool", "rain", tool_call_id="a"),
                ChatMessage("tool", "Error: no clock", tool_call_id="b"),
                ChatMessage("user", "Well?"),
            ],
        ),
    ],
)
async def test_every_form_of_message(ask, engine, messages, expected):
    response = await ask("/v1/messages", {"model": "tiny", "max_tokens": 9, "messages": messages})
    assert response.status_code == 200, response.text
    assert list(engine.request.messages) == expected


async def test_the_system_block_that_changes_each_time_is_left_out(ask, engine):
    system = [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch=8f1;"},
        {"type": "text", "text": "You are an agent.", "cache_control": CACHE},
    ]
    await ask("/v1/messages", {"model": "tiny", "max_tokens": 9, "messages": USER, "system": system})
    assert engine.request.messages[0] == ChatMessage("system", "You are an agent.")


@pytest.mark.parametrize(
    ("fields", "thinking", "budget", "optional"),
    [
        ({}, False, None, False),
        ({"thinking": {"type": "disabled"}}, False, None, False),
        ({"thinking": {"type": "enabled", "budget_tokens": 50}}, True, 50, False),
        ({"thinking": {"type": "adaptive"}}, True, None, True),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, True, 2048, True),
        ({"output_config": {"effort": "high"}}, False, None, False),
    ],
)
async def test_every_form_of_thinking(ask, engine, fields, thinking, budget, optional):
    response = await ask("/v1/messages", {"model": "tiny", "max_tokens": 99, "messages": USER, **fields})
    assert response.status_code == 200, response.text
    assert (engine.request.thinking, engine.request.thinking_budget) == (thinking, budget)
    assert engine.request.thinking_optional is optional


def thought(text):
    return {"role": "assistant", "content": [{"type": "thinking", "thinking": text}, SAID]}


SAID = {"type": "text", "text": "So."}
CLEAR = "clear_thinking_20251015"


@pytest.mark.parametrize(
    ("edits", "left"),
    [
        ([], ["a", "b", "c"]),
        ([{"type": CLEAR, "keep": "all"}], ["a", "b", "c"]),
        ([{"type": CLEAR, "keep": {"type": "all"}}], ["a", "b", "c"]),
        ([{"type": CLEAR, "keep": {"type": "thinking_turns", "value": 5}}], ["a", "b", "c"]),
        ([{"type": CLEAR, "keep": {"type": "thinking_turns", "value": 2}}], ["", "b", "c"]),
        ([{"type": CLEAR}], ["", "", "c"]),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_old_reasoning_is_cleared_as_asked(client, engine, edits, left, stream):
    counts = iter([30, 50])  # without what was cleared, and with it

    async def count_tokens(request, model=""):
        return next(counts)

    engine.count_tokens = count_tokens
    messages = [*USER, thought("a"), *USER, thought("b"), *USER, thought("c"), *USER]
    options = {"model": "tiny", "max_tokens": 9, "messages": messages, "context_management": {"edits": edits}}
    if stream:
        async with client.beta.messages.stream(**options) as events:
            message = await events.get_final_message()
    else:
        message = await client.beta.messages.create(**options)
    assert [one.reasoning for one in engine.request.messages if one.role == "assistant"] == left
    cleared = left.count("")
    applied = message.context_management.applied_edits
    assert [(edit.type, edit.cleared_thinking_turns, edit.cleared_input_tokens) for edit in applied] == (
        [(CLEAR, cleared, 20)] if cleared else []
    )


async def test_a_message_whose_context_nobody_manages_does_not_speak_of_it(ask):
    response = await ask("/v1/messages", {"model": "tiny", "max_tokens": 9, "messages": USER})
    assert "context_management" not in response.json()


async def test_structured_output(client, engine):
    await client.messages.create(
        model="tiny",
        max_tokens=9,
        messages=USER,
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
    )
    assert engine.request.constraint.kind is ConstraintKind.JSON_SCHEMA
    assert json.loads(engine.request.constraint.source) == SCHEMA


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
RESULT = {"type": "tool_result", "tool_use_id": "a"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"messages": [{"role": "user", "content": [IMAGE]}]},
            "messages.0.content.0: 'image' is not supported",
        ),
        (
            {"messages": [{"role": "user", "content": [{**RESULT, "content": [IMAGE]}]}]},
            "'image' is not supported",
        ),
        (
            {"messages": [{"role": "assistant", "content": [RESULT]}, *USER]},
            "messages.0.content.0: A tool_result",
        ),
        ({"messages": [*USER, {"role": "assistant", "content": "So"}]}, "messages: The last message"),
        ({"max_tokens": 0}, "max_tokens: "),
        ({"max_tokens": None}, "max_tokens: "),
        ({"stop_sequences": ["x"] * 10_000}, "stop_sequences: "),
        ({"temperature": -0.1}, "temperature: "),
        ({"container": "c"}, "container: This field is unknown or not supported"),
        ({"thinking": {"type": "enabled", "budget_tokens": 99}}, "thinking.budget_tokens: "),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools.0.type: "),
        ({"tools": [TOOL, TOOL]}, "tools: Two"),
        ({"tool_choice": {"type": "any"}}, "tool_choice: There are no tools"),
        ({"tool_choice": {"type": "tool", "name": "no"}}, "tool_choice.name: "),
        ({"tool_choice": "auto"}, "tool_choice: "),
    ],
)
async def test_what_is_refused(ask, engine, fields, words):
    response = await ask("/v1/messages", {"model": "tiny", "max_tokens": 9, "messages": USER, **fields})
    assert response.status_code == 400
    answer = response.json()
    assert (answer["type"], answer["error"]["type"]) == ("error", "invalid_request_error")
    assert words in answer["error"]["message"]
    assert not engine.requests


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (PromptTooLong("Too long by 5 tokens."), anthropic.BadRequestError, 400),
        (EngineBusy("Full."), anthropic.RateLimitError, 429),
        (EngineUnavailable("Loading."), anthropic.InternalServerError, 503),
        (ValueError("the user's text"), anthropic.InternalServerError, 500),
    ],
)
async def test_failures_before_the_first_piece_are_statuses(client, engine, error, kind, status):
    engine.chats = [error]
    with pytest.raises(kind) as failed:
        await client.messages.create(model="tiny", max_tokens=9, messages=USER, stream=True)
    assert failed.value.status_code == status
    assert "user's text" not in str(failed.value)


async def test_a_failure_within_a_stream_is_an_event(client, engine):
    engine.chats = [ChatDelta("Hel"), EngineUnavailable("The engine fell over.")]
    stream = await client.messages.create(model="tiny", max_tokens=9, messages=USER, stream=True)
    with pytest.raises(anthropic.APIStatusError, match="fell over"):
        async for _ in stream:
            pass


async def test_an_unknown_model(client):
    with pytest.raises(anthropic.NotFoundError, match="tiny"):
        await client.messages.create(model="claude", max_tokens=9, messages=USER)
