"""Responses by OpenAI's own client, and bodies in every form that is documented."""

import openai
import pytest
from pydantic import BaseModel

from engine.errors import EngineUnavailable, PromptTooLong
from engine.types import (
    ChatDelta,
    ChatMessage,
    ConstraintKind,
    FinishReason,
    ToolCall,
    ToolCallDelta,
    ToolChoice,
)

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "name": "weather", "description": "d", "parameters": PARAMETERS, "strict": True}
OTHER = {"type": "function", "name": "time", "parameters": None, "strict": None}


@pytest.fixture
def client(server):
    return openai.AsyncOpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0, http_client=server.client()
    )


@pytest.fixture
def long_script(engine):
    engine.chats = [
        ChatDelta(reasoning="Let ", tokens=1),
        ChatDelta(reasoning="me see.", tokens=2),
        ChatDelta("Hel", tokens=1),
        ChatDelta("lo", tokens=1),
        ChatDelta(tool_calls=(ToolCallDelta(0, "call_1", "weather", '{"city": '),)),
        ChatDelta(tool_calls=(ToolCallDelta(0, arguments='"Oslo"}'),)),
        ChatDelta(tool_calls=(ToolCallDelta(1, "call_2", "time"),)),
        ChatDelta(tool_calls=(ToolCallDelta(1, arguments="{}"),)),
        ChatDelta(finish=FinishReason.TOOL_CALLS, timing=engine.chats[-1].timing),
    ]


async def test_a_response(client, engine):
    answer = await client.responses.create(model="tiny", input="x", instructions="Be brief.")
    assert answer.output_text == "Hello"
    assert answer.status == "completed"
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (10, 3, 13)
    assert answer.usage.input_tokens_details.cached_tokens == 4
    assert engine.request.messages == (ChatMessage("system", "Be brief."), ChatMessage("user", "x"))


async def test_every_kind_of_item(client, long_script):
    answer = await client.responses.create(model="tiny", input="x", tools=[TOOL, OTHER])
    reasoning, message, first, second = answer.output
    assert reasoning.content[0].text == "Let me see."
    assert message.content[0].text == "Hello"
    assert (first.call_id, first.name, first.arguments) == ("call_1", "weather", '{"city": "Oslo"}')
    assert (second.call_id, second.name, second.arguments) == ("call_2", "time", "{}")
    assert answer.usage.output_tokens_details.reasoning_tokens == 3
    assert [tool.name for tool in answer.tools] == ["weather", "time"]


async def test_the_events_of_a_stream(client, long_script):
    stream = await client.responses.create(model="tiny", input="x", tools=[TOOL, OTHER], stream=True)
    events = [event async for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type.removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    added = [event for event in events if event.type == "response.output_item.added"]
    done = [event for event in events if event.type == "response.output_item.done"]
    assert [event.output_index for event in added] == [event.output_index for event in done] == [0, 1, 2, 3]
    assert [event.item.id for event in added] == [event.item.id for event in done]
    assert [item.id for item in events[-1].response.output] == [event.item.id for event in done]


async def test_the_clients_own_accumulation_agrees(client, long_script):
    async with client.responses.stream(model="tiny", input="x", tools=[TOOL, OTHER]) as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_response()
    assert final.output_text == "Hello"
    assert final.output[2].arguments == '{"city": "Oslo"}'


async def test_structured_output(client, engine):
    class Answer(BaseModel):
        value: int

    engine.chats = [ChatDelta('{"value": 3}', finish=FinishReason.STOP, timing=engine.chats[-1].timing)]
    answer = await client.responses.parse(model="tiny", input="x", text_format=Answer)
    assert answer.output_parsed == Answer(value=3)
    assert engine.request.constraint.kind is ConstraintKind.JSON_SCHEMA


async def test_log_probabilities(client, engine, logprob):
    engine.chats = [
        ChatDelta("H", logprobs=(logprob(b"H", -0.5, logprob(b"H", -0.5), logprob(b"J", -1.5)),)),
        engine.chats[-1],
    ]
    answer = await client.responses.create(
        model="tiny", input="x", include=["message.output_text.logprobs"], top_logprobs=2
    )
    (token,) = answer.output[0].content[0].logprobs
    assert (token.token, token.logprob, [top.token for top in token.top_logprobs]) == ("H", -0.5, ["H", "J"])


async def test_an_answer_that_was_cut_off_is_incomplete(client, engine):
    engine.chats = [ChatDelta("Hel", finish=FinishReason.LENGTH, timing=engine.chats[-1].timing)]
    answer = await client.responses.create(model="tiny", input="x", max_output_tokens=1)
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert answer.output[0].status == "incomplete"
    stream = await client.responses.create(model="tiny", input="x", stream=True)
    assert [event.type async for event in stream][-1] == "response.incomplete"


async def test_a_failure_within_a_stream_is_told(client, engine):
    engine.chats = [ChatDelta("Hel"), EngineUnavailable("The engine fell over.")]
    stream = await client.responses.create(model="tiny", input="x", stream=True)
    events = [event async for event in stream]
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]
    assert events[-1].response.status == "failed"
    assert "fell over" in events[-1].response.error.message


async def test_a_failure_before_it_is_a_status(client, engine):
    engine.chats = [PromptTooLong("Too long by 5 tokens.")]
    with pytest.raises(openai.BadRequestError, match="by 5 tokens"):
        await client.responses.create(model="tiny", input="x", stream=True)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([{"role": "user", "content": "x"}], [ChatMessage("user", "x")]),
        (
            [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "s"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
                {
                    "type": "reasoning",
                    "id": "rs",
                    "summary": [],
                    "content": [{"type": "reasoning_text", "text": "hm"}],
                },
                {
                    "type": "message",
                    "id": "m",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "I ask.", "annotations": [], "logprobs": []}],
                },
                {
                    "type": "function_call",
                    "id": "i",
                    "call_id": "a",
                    "name": "f",
                    "arguments": "{}",
                    "status": "completed",
                },
                {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "1"},
                {
                    "type": "function_call_output",
                    "call_id": "b",
                    "output": [{"type": "input_text", "text": "2"}],
                },
                {"role": "assistant", "content": "Done."},
                {"role": "assistant", "content": "Really."},
            ],
            [
                ChatMessage("system", "s"),
                ChatMessage("user", "x"),
                ChatMessage(
                    "assistant",
                    "I ask.",
                    reasoning="hm",
                    tool_calls=(ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}")),
                ),
                ChatMessage("tool", "1", tool_call_id="a"),
                ChatMessage("tool", "2", tool_call_id="b"),
                ChatMessage("assistant", "Done."),
                ChatMessage("assistant", "Really."),
            ],
        ),
    ],
)
async def test_every_form_of_input(ask, engine, items, expected):
    response = await ask("/v1/responses", {"model": "tiny", "input": items})
    assert response.status_code == 200, response.text
    assert list(engine.request.messages) == expected


@pytest.mark.parametrize(
    ("choice", "expected", "named", "tools"),
    [
        ("auto", ToolChoice.AUTO, "", 3),
        ("none", ToolChoice.NONE, "", 3),
        ("required", ToolChoice.REQUIRED, "", 3),
        ({"type": "function", "name": "time"}, ToolChoice.NAMED, "time", 3),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "time"}]},
            ToolChoice.REQUIRED,
            "",
            1,
        ),
        ({"type": "custom", "name": "patch"}, ToolChoice.NAMED, "patch", 3),
    ],
)
async def test_every_form_of_tool_choice(ask, engine, choice, expected, named, tools):
    offered = [TOOL, OTHER, {"type": "custom", "name": "patch"}]
    response = await ask(
        "/v1/responses", {"model": "tiny", "input": "x", "tools": offered, "tool_choice": choice}
    )
    assert response.status_code == 200, response.text
    assert (engine.request.tool_choice, engine.request.named_tool) == (expected, named)
    assert len(engine.request.tools) == tools
    assert response.json()["tool_choice"] == choice


CUSTOM = {"type": "custom", "name": "patch", "description": "d"}
SPACE = {"type": "namespace", "name": "crm", "description": "d", "tools": [TOOL, CUSTOM]}


async def test_custom_tools_and_namespaces_by_the_client(client, engine):
    engine.chats = [
        ChatDelta(tool_calls=(ToolCallDelta(0, "c0", "patch", '{"input": "a\\n'),)),
        ChatDelta(tool_calls=(ToolCallDelta(0, arguments='b"}'),)),
        ChatDelta(tool_calls=(ToolCallDelta(1, "c1", "crm.weather", '{"city": "Oslo"}'),)),
        ChatDelta(tool_calls=(ToolCallDelta(2, "c2", "crm.patch", '{"input": ""}'),)),
        ChatDelta(finish=FinishReason.TOOL_CALLS, timing=engine.chats[-1].timing),
    ]
    options = {"model": "tiny", "input": "x", "tools": [CUSTOM, SPACE]}
    stream = await client.responses.create(**options, stream=True)
    events = [event async for event in stream]
    pieces = [event.delta for event in events if event.type == "response.custom_tool_call_input.delta"]
    assert pieces == ["a\n", "b"]
    whole = await client.responses.create(**options)
    for response in (events[-1].response, whole):
        custom, function, spaced = response.output
        assert (custom.type, custom.name, custom.namespace, custom.input) == (
            "custom_tool_call",
            "patch",
            None,
            "a\nb",
        )
        assert (function.type, function.name, function.namespace, function.arguments) == (
            "function_call",
            "weather",
            "crm",
            '{"city": "Oslo"}',
        )
        assert (spaced.name, spaced.namespace, spaced.input) == ("patch", "crm", "")
        assert [tool.type for tool in response.tools] == ["custom", "namespace"]
    assert [tool.name for tool in engine.request.tools] == ["patch", "crm.weather", "crm.patch"]
    # What it gives back on the next turn is what the model wrote.
    items = [item.model_dump(exclude_none=True) for item in whole.output]
    results = [{"type": "custom_tool_call_output", "call_id": "c0", "output": "done"}]
    await client.responses.create(**{**options, "input": [*items, *results]})
    turn, result = engine.request.messages
    assert turn.tool_calls == (
        ToolCall("c0", "patch", '{"input": "a\\nb"}'),
        ToolCall("c1", "crm.weather", '{"city": "Oslo"}'),
        ToolCall("c2", "crm.patch", '{"input": ""}'),
    )
    assert result == ChatMessage("tool", "done", tool_call_id="c0")


async def test_a_call_that_nobody_declared_is_told_as_a_function(client, engine):
    call = ToolCallDelta(0, "c0", "rumour", "{}")
    end = ChatDelta(finish=FinishReason.TOOL_CALLS, timing=engine.chats[-1].timing)
    engine.chats = [ChatDelta(tool_calls=(call,)), end]
    answer = await client.responses.create(model="tiny", input="x", tools=[CUSTOM])
    assert (answer.output[0].type, answer.output[0].name) == ("function_call", "rumour")


async def test_a_custom_call_that_was_cut_off_is_incomplete(client, engine):
    call = ToolCallDelta(0, "c0", "patch", '{"input": "a\\')
    engine.chats = [ChatDelta(tool_calls=(call,), finish=FinishReason.LENGTH, timing=engine.chats[-1].timing)]
    answer = await client.responses.create(model="tiny", input="x", tools=[CUSTOM])
    assert (answer.output[0].input, answer.output[0].status) == ("a", "incomplete")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"store": True}, "store"),
        ({"background": True}, "background"),
        ({"conversation": "c"}, "conversation"),
        ({"truncation": "auto"}, "truncation"),
        ({"tools": [{"type": "web_search"}]}, "tools.0"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"tools": [{"type": "namespace", "name": "crm", "tools": []}]}, "tools.0.tools"),
        ({"tools": [{"type": "namespace", "name": "crm", "tools": [{"type": "mcp"}]}]}, "tools.0.tools.0"),
        ({"tools": [{**SPACE, "tools": [{**TOOL, "name": f"t{n}"} for n in range(129)]}]}, "tools"),
        (
            {"tools": [{**CUSTOM, "format": {"type": "grammar", "syntax": "gbnf", "definition": "x"}}]},
            "tools.0.format.syntax",
        ),
        ({"tools": [SPACE, {**TOOL, "name": "crm.weather"}]}, "tools"),
        ({"include": ["file_search_call.results"]}, "include.0"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input.0.content.0",
        ),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0"),
        ({"input": []}, "input"),
    ],
)
async def test_what_is_refused(ask, engine, fields, field):
    response = await ask("/v1/responses", {"model": "tiny", "input": "x", **fields})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == field
    assert not engine.requests
