"""Chats by OpenAI's own client, and bodies in every form that is documented."""

import json

import openai
import pytest
from pydantic import BaseModel

from engine.errors import DeadlineExceeded, EngineBusy, EngineUnavailable, PromptTooLong
from engine.types import (
    ChatDelta,
    ChatMessage,
    Constraint,
    ConstraintKind,
    FinishReason,
    ToolCall,
    ToolCallDelta,
    ToolChoice,
)

USER = [{"role": "user", "content": "x"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "description": "d", "parameters": PARAMETERS}}
OTHER = {"type": "function", "function": {"name": "time"}}


@pytest.fixture
def client(server):
    return openai.AsyncOpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0, http_client=server.client()
    )


def call_script(timing):
    return [
        ChatDelta(reasoning="Let me see.", tokens=5),
        ChatDelta(tool_calls=(ToolCallDelta(0, "call_1", "weather"),)),
        ChatDelta(tool_calls=(ToolCallDelta(0, arguments='{"city": '),)),
        ChatDelta(tool_calls=(ToolCallDelta(0, arguments='"Oslo"}'),)),
        ChatDelta(tool_calls=(ToolCallDelta(1, "call_2", "time", "{}"),)),
        ChatDelta(finish=FinishReason.TOOL_CALLS, timing=timing),
    ]


async def test_a_message(client, engine):
    answer = await client.chat.completions.create(model="default", messages=USER)
    assert answer.model == "tiny"
    assert answer.choices[0].message.content == "Hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].logprobs is None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (
        10,
        3,
        13,
    )
    assert answer.usage.prompt_tokens_details.cached_tokens == 4
    assert engine.models_asked == ["tiny"]
    assert engine.request.messages == (ChatMessage("user", "x"),)


async def test_a_streamed_message(client):
    stream = await client.chat.completions.create(
        model="tiny", messages=USER, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hello"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 13
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1


async def test_tool_calls(client, engine):
    engine.chats = call_script(engine.chats[-1].timing)
    answer = await client.chat.completions.create(model="tiny", messages=USER, tools=[TOOL, OTHER])
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert choice.message.reasoning_content == "Let me see."
    assert [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls] == [
        ("call_1", "weather", '{"city": "Oslo"}'),
        ("call_2", "time", "{}"),
    ]
    assert answer.usage.completion_tokens_details.reasoning_tokens == 5
    assert engine.request.tools[0].parameters == PARAMETERS
    assert engine.request.tools[1].parameters == {"type": "object", "properties": {}}


async def test_streamed_tool_calls_come_in_pieces_and_are_put_together(client, engine):
    engine.chats = call_script(engine.chats[-1].timing)
    async with client.chat.completions.stream(model="tiny", messages=USER, tools=[TOOL, OTHER]) as stream:
        pieces = [
            event.arguments_delta
            async for event in stream
            if event.type == "tool_calls.function.arguments.delta"
        ]
        final = await stream.get_final_completion()
    assert '{"city": ' in pieces
    assert [call.function.arguments for call in final.choices[0].message.tool_calls] == [
        '{"city": "Oslo"}',
        "{}",
    ]


async def test_structured_output(client, engine):
    class Answer(BaseModel):
        value: int

    engine.chats = [ChatDelta('{"value": 3}', finish=FinishReason.STOP, timing=engine.chats[-1].timing)]
    answer = await client.chat.completions.parse(model="tiny", messages=USER, response_format=Answer)
    assert answer.choices[0].message.parsed == Answer(value=3)
    constraint = engine.request.constraint
    assert constraint.kind is ConstraintKind.JSON_SCHEMA
    assert json.loads(constraint.source)["properties"]["value"]["type"] == "integer"


async def test_log_probabilities(client, engine, logprob):
    euro = logprob(b"\xe2\x82", -0.25, logprob(b"\xe2\x82", -0.25), logprob(b"a", float("-inf")))
    engine.chats = [
        ChatDelta("H", tokens=1, logprobs=(logprob(b"H", -0.5),)),
        ChatDelta("", tokens=1, logprobs=(euro,)),
        ChatDelta(finish=FinishReason.STOP, timing=engine.chats[-1].timing),
    ]
    options = {"model": "tiny", "messages": USER, "logprobs": True, "top_logprobs": 2}
    answer = await client.chat.completions.create(**options)
    first, second = answer.choices[0].logprobs.content
    assert (first.token, first.bytes, first.logprob, first.top_logprobs) == ("H", [72], -0.5, [])
    assert (second.token, second.bytes) == ("bytes:\\xe2\\x82", [0xE2, 0x82])
    assert [top.logprob for top in second.top_logprobs] == [-0.25, -9999.0]
    assert engine.request.top_logprobs == 2
    stream = await client.chat.completions.create(**options, stream=True)
    streamed = [
        token.token
        async for chunk in stream
        if chunk.choices[0].logprobs
        for token in chunk.choices[0].logprobs.content
    ]
    assert streamed == ["H", "bytes:\\xe2\\x82"]


async def test_several_choices_have_seeds_of_their_own(client, engine):
    answer = await client.chat.completions.create(model="tiny", messages=USER, n=3, seed=5)
    assert [choice.message.content for choice in answer.choices] == ["Hello"] * 3
    assert sorted(request.sampling.seed for request in engine.requests) == [5, 6, 7]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (10, 9)


async def test_parameters_reach_the_engine(client, engine):
    await client.chat.completions.create(
        model="tiny",
        messages=USER,
        temperature=0.5,
        top_p=0.9,
        presence_penalty=0.1,
        frequency_penalty=-0.2,
        seed=1,
        stop=["a", "b"],
        max_completion_tokens=7,
        parallel_tool_calls=False,
        extra_body={"top_k": 20, "min_p": 0.05, "repetition_penalty": 1.1},
    )
    request = engine.request
    assert request.stop == ("a", "b")
    assert request.max_tokens == 7
    assert not request.parallel_tool_calls
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.9, 20, 0.05)
    assert (sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty) == (
        0.1,
        -0.2,
        1.1,
    )


@pytest.mark.parametrize(
    ("choice", "expected", "named", "tools"),
    [
        (None, ToolChoice.AUTO, "", ["weather", "time"]),
        ("auto", ToolChoice.AUTO, "", ["weather", "time"]),
        ("none", ToolChoice.NONE, "", ["weather", "time"]),
        ("required", ToolChoice.REQUIRED, "", ["weather", "time"]),
        ({"type": "function", "function": {"name": "time"}}, ToolChoice.NAMED, "time", ["weather", "time"]),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [TOOL | {"function": {"name": "weather"}}]},
            },
            ToolChoice.AUTO,
            "",
            ["weather"],
        ),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "time"}}],
                },
            },
            ToolChoice.REQUIRED,
            "",
            ["time"],
        ),
    ],
)
async def test_every_form_of_tool_choice(ask, engine, choice, expected, named, tools):
    body = {"model": "tiny", "messages": USER, "tools": [TOOL, OTHER], "tool_choice": choice}
    response = await ask("/v1/chat/completions", body)
    assert response.status_code == 200, response.text
    request = engine.request
    assert (request.tool_choice, request.named_tool) == (expected, named)
    assert [tool.name for tool in request.tools] == tools


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([{"role": "system", "content": "s"}, *USER], [ChatMessage("system", "s"), ChatMessage("user", "x")]),
        (
            [{"role": "developer", "content": "s"}, *USER],
            [ChatMessage("system", "s"), ChatMessage("user", "x")],
        ),
        (
            [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
            [ChatMessage("user", "ab")],
        ),
        (
            [
                *USER,
                {
                    "role": "assistant",
                    "content": None,
                    "refusal": None,
                    "annotations": [],
                    "audio": None,
                    "function_call": None,
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {
                            "id": "c",
                            "type": "function",
                            "index": 0,
                            "function": {"name": "f", "arguments": "{}"},
                        }
                    ],
                },
                {
                    "role": "tool",
                    "tool_call_id": "c",
                    "name": "f",
                    "content": [{"type": "text", "text": "7"}],
                },
            ],
            [
                ChatMessage("user", "x"),
                ChatMessage("assistant", "", reasoning="hm", tool_calls=(ToolCall("c", "f", "{}"),)),
                ChatMessage("tool", "7", tool_call_id="c"),
            ],
        ),
    ],
)
async def test_every_form_of_message(ask, engine, messages, expected):
    response = await ask("/v1/chat/completions", {"model": "tiny", "messages": messages})
    assert response.status_code == 200, response.text
    assert list(engine.request.messages) == expected


@pytest.mark.parametrize(
    ("fields", "thinking", "budget", "optional"),
    [
        ({}, None, None, False),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False, None, False),
        ({"chat_template_kwargs": {"enable_thinking": True}}, True, None, False),
        ({"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "low"}, True, 2048, False),
        ({"reasoning_effort": "none"}, False, None, False),
        ({"reasoning_effort": "low"}, True, 2048, True),
        ({"thinking": {"type": "enabled", "budget_tokens": 50}}, True, 50, False),
        ({"thinking": {"type": "adaptive"}}, True, None, True),
        ({"thinking": {"type": "disabled"}}, False, None, False),
        ({"thinking": {"type": "enabled"}, "reasoning_effort": "minimal"}, True, 512, False),
    ],
)
async def test_every_form_of_thinking(ask, engine, fields, thinking, budget, optional):
    response = await ask("/v1/chat/completions", {"model": "tiny", "messages": USER, **fields})
    assert response.status_code == 200, response.text
    assert (engine.request.thinking, engine.request.thinking_budget) == (thinking, budget)
    assert engine.request.thinking_optional is optional


@pytest.mark.parametrize(
    ("wanted", "constraint"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, Constraint(ConstraintKind.JSON_OBJECT)),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {"type": "null"}}},
            Constraint(ConstraintKind.JSON_SCHEMA, '{"type": "null"}'),
        ),
    ],
)
async def test_every_form_of_response_format(ask, engine, wanted, constraint):
    await ask("/v1/chat/completions", {"model": "tiny", "messages": USER, "response_format": wanted})
    assert engine.request.constraint == constraint


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
NAN = float("nan")


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages.0.content.0", "'image_url'"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content", "string"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0", "robot"),
        ({"messages": [{"role": "user", "content": "x", "name": "Eve"}]}, "messages.0.name", "not supported"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.tool_call_id", "required"),
        ({"nonsense": 1}, "nonsense", "unknown or not supported"),
        ({"logit_bias": {"1": 5}}, "logit_bias", "not supported"),
        ({"functions": [{"name": "f"}]}, "functions", "not supported"),
        ({"store": True}, "store", "not supported"),
        ({"temperature": -1}, "temperature", "greater than or equal to 0"),
        ({"temperature": 1e9}, "temperature", "less than"),
        ({"temperature": "1"}, "temperature", "valid number"),
        ({"top_p": 0}, "top_p", "greater than 0"),
        ({"top_k": -1}, "top_k", "greater"),
        ({"presence_penalty": 3}, "presence_penalty", "less than"),
        ({"n": 0}, "n", "greater"),
        ({"n": 17}, "n", "at most 16"),
        ({"max_tokens": 0}, "max_tokens", "greater"),
        ({"max_tokens": True}, "max_tokens", "integer"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "max_tokens", "not both"),
        ({"stop": ["a"] * 10_000}, "stop", "at most 16"),
        ({"stop": ""}, "stop", "at least 1"),
        ({"stop": ["a" * 1000]}, "stop.0", "at most 256"),
        ({"seed": 1 << 70}, "seed", ""),
        ({"top_logprobs": 2}, "top_logprobs", "logprobs: true"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "less than"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "stream: true"),
        ({"tool_choice": "required"}, "tool_choice", "no tools"),
        ({"tool_choice": "sometimes"}, "tool_choice", "'required'"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "no"}}},
            "tool_choice",
            "'no'",
        ),
        (
            {"tools": [TOOL], "tool_choice": {"type": "custom", "custom": {"name": "c"}}},
            "tool_choice",
            "custom",
        ),
        ({"tools": [TOOL, TOOL]}, "tools", "'weather'"),
        ({"tools": [{"type": "custom", "custom": {"name": "c"}}]}, "tools.0", ""),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools.0.function.name", "pattern"),
        ({"tools": [OTHER] * 129}, "tools", "at most 128"),
        ({"response_format": {"type": "grammar"}}, "response_format", "grammar"),
        ({"chat_template_kwargs": {"tone": "odd"}}, "chat_template_kwargs.tone", "unknown"),
        (
            {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "none"},
            "chat_template",
            "off",
        ),
    ],
)
async def test_what_is_refused(ask, engine, fields, field, words):
    response = await ask("/v1/chat/completions", {"model": "tiny", "messages": USER, **fields})
    error = response.json()["error"]
    assert response.status_code == 400
    assert error["param"].startswith(field)
    assert words in error["message"]
    assert error["type"] == "invalid_request_error"
    assert not engine.requests


async def test_a_long_schema_is_refused(ask, engine):
    bomb = {"enum": ["x" * 100] * 4000}
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": bomb}}
    response = await ask(
        "/v1/chat/completions", {"model": "tiny", "messages": USER, "response_format": wanted}
    )
    assert (response.status_code, response.json()["error"]["param"]) == (
        400,
        "response_format.json_schema.schema",
    )
    assert not engine.requests


async def test_an_unknown_model_names_those_that_are_there(client):
    with pytest.raises(openai.NotFoundError, match="tiny, other/one") as refused:
        await client.chat.completions.create(model="gpt-9", messages=USER)
    assert refused.value.code == "model_not_found"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (PromptTooLong("The prompt is 90 tokens longer than the context."), openai.BadRequestError, 400),
        (EngineBusy("Full.", retry_after=2.4), openai.RateLimitError, 429),
        (EngineUnavailable("Loading."), openai.InternalServerError, 503),
        (DeadlineExceeded("Too slow."), openai.InternalServerError, 504),
        (ValueError("the user's text"), openai.InternalServerError, 500),
    ],
)
async def test_failures_before_the_first_piece_are_statuses(client, engine, stream, error, kind, status):
    engine.chats = [error]
    with pytest.raises(kind) as failed:
        await client.chat.completions.create(model="tiny", messages=USER, stream=stream)
    assert failed.value.status_code == status
    if status == 429:
        assert failed.value.response.headers["retry-after"] == "3"
    if isinstance(error, PromptTooLong):
        assert failed.value.code == "context_length_exceeded"
        assert "90 tokens" in failed.value.message
    assert "user's text" not in failed.value.message


@pytest.mark.parametrize(
    "error", [EngineUnavailable("The engine fell over."), ValueError("the user's text"), None]
)
async def test_failures_within_a_stream_are_events(client, engine, error):
    engine.chats = [ChatDelta("Hel"), *([error] if error else [])]
    stream = await client.chat.completions.create(model="tiny", messages=USER, stream=True)
    with pytest.raises(openai.APIError) as failed:
        async for _ in stream:
            pass
    assert "user's text" not in failed.value.message
    assert failed.value.message


async def test_a_failing_choice_ends_the_others(client, engine):
    engine.chats = [ChatDelta("Hel"), EngineUnavailable("The engine fell over.")]
    with pytest.raises(openai.InternalServerError):
        await client.chat.completions.create(model="tiny", messages=USER, n=2)
    assert engine.cut_short == 2
