"""What both SDKs do beyond a single request: cancel, raise, parse, and run tools."""

import asyncio
import json

import anthropic
import openai
import pytest
from pydantic import BaseModel

from engine.errors import DeadlineExceeded, EngineBusy, EngineUnavailable, PromptTooLong
from engine.service.http.app import build_app
from engine.service.http.settings import Limits
from engine.types import ChatDelta, ChatMessage, ConstraintKind, FinishReason, ToolCall, ToolCallDelta

TOKEN = "secret"
USER = [{"role": "user", "content": "x"}]


class Answer(BaseModel):
    value: int


class Weather(BaseModel):
    city: str


def open_openai(served, **options):
    return openai.AsyncOpenAI(
        base_url=f"{served.url}/v1",
        api_key=TOKEN,
        max_retries=0,
        http_client=served.client(),
        **options,
    )


def open_anthropic(served, **options):
    return anthropic.AsyncAnthropic(
        base_url=served.url, auth_token=TOKEN, max_retries=0, http_client=served.client(), **options
    )


def chat(client, **more):
    return client.chat.completions.create(model="tiny", messages=USER, **more)


def respond(client, **more):
    return client.responses.create(model="tiny", input="x", **more)


def complete(client, **more):
    return client.completions.create(model="tiny", prompt="x", **more)


def message(client, **more):
    return client.messages.create(**{"model": "tiny", "max_tokens": 9, "messages": USER, **more})


EVERY_API = [
    pytest.param(open_openai, chat, id="chat"),
    pytest.param(open_openai, respond, id="responses"),
    pytest.param(open_openai, complete, id="completions"),
    pytest.param(open_anthropic, message, id="messages"),
]


@pytest.mark.parametrize(("connect", "ask"), EVERY_API)
async def test_closing_a_stream_cancels_the_request(server, engine, connect, ask):
    for script in (engine.chats, engine.texts):
        script[-1:] = [asyncio.Event()]  # a generation that does not end by itself
    stream = await ask(connect(server), stream=True)
    await anext(aiter(stream))
    assert not engine.closed.is_set()
    await stream.close()
    await asyncio.wait_for(engine.closed.wait(), 30)
    assert engine.cut_short == 1


@pytest.mark.parametrize(("connect", "ask"), EVERY_API)
async def test_giving_up_waiting_cancels_the_request(server, engine, connect, ask):
    for script in (engine.chats, engine.texts):
        script[:] = [asyncio.Event()]
    waiting = asyncio.create_task(ask(connect(server)))
    await asyncio.wait_for(engine.started.wait(), 30)
    waiting.cancel()
    await asyncio.wait_for(engine.closed.wait(), 30)
    assert engine.cut_short == 1
    with pytest.raises(asyncio.CancelledError):
        await waiting


# The class that each SDK has for it.
FAILURES = [
    (PromptTooLong("Too long by 5 tokens."), "BadRequestError", "BadRequestError"),
    (EngineBusy("Full."), "RateLimitError", "RateLimitError"),
    (EngineUnavailable("Loading."), "InternalServerError", "ServiceUnavailableError"),
    (DeadlineExceeded("Too slow."), "InternalServerError", "GatewayTimeoutError"),
    (ValueError("text"), "InternalServerError", "InternalServerError"),
]


@pytest.mark.parametrize(("connect", "ask"), EVERY_API)
@pytest.mark.parametrize(("error", "of_openai", "of_anthropic"), FAILURES)
async def test_failures_are_exceptions_of_their_own(
    server, engine, connect, ask, error, of_openai, of_anthropic
):
    engine.chats = engine.texts = [error]
    with pytest.raises(Exception) as failed:
        await ask(connect(server))
    assert type(failed.value).__name__ == (of_openai if connect is open_openai else of_anthropic)


@pytest.mark.parametrize(("connect", "ask"), EVERY_API)
async def test_refusals_are_exceptions_of_their_own(engine, serve, connect, ask):
    sdk = openai if connect is open_openai else anthropic
    async with serve(build_app(engine, token=TOKEN, limits=Limits(body_bytes=500))) as served:
        await ask(connect(served))
        with pytest.raises(sdk.AuthenticationError):
            await ask(connect(served).with_options(default_headers={"Authorization": "Bearer wrong"}))
        with pytest.raises(sdk.PermissionDeniedError):
            await ask(connect(served, default_headers={"Origin": "http://example.com"}))
        with pytest.raises(sdk.NotFoundError):
            await ask(connect(served), extra_body={"model": "no"})
        with pytest.raises(sdk.BadRequestError, match="nonsense: "):
            await ask(connect(served), extra_body={"nonsense": 1})
        with pytest.raises(sdk.APIStatusError) as too_large:
            await ask(connect(served), extra_body={"user": "x" * 500})
        assert too_large.value.status_code == 413
    assert len(engine.requests) == 1


async def test_structured_output_while_it_streams(server, engine):
    timing = engine.chats[-1].timing
    engine.chats = [
        ChatDelta('{"value"'),
        ChatDelta(": 3}"),
        ChatDelta(finish=FinishReason.STOP, timing=timing),
    ]
    client = open_openai(server)
    async with client.chat.completions.stream(model="tiny", messages=USER, response_format=Answer) as stream:
        whole = await stream.get_final_completion()
    assert whole.choices[0].message.parsed == Answer(value=3)
    async with client.responses.stream(model="tiny", input="x", text_format=Answer) as stream:
        response = await stream.get_final_response()
    assert response.output_parsed == Answer(value=3)
    claude = open_anthropic(server)
    async with claude.messages.stream(
        model="tiny", max_tokens=9, messages=USER, output_format=Answer
    ) as stream:
        final = await stream.get_final_message()
    assert final.parsed_output == Answer(value=3)
    assert [request.constraint.kind for request in engine.requests] == [ConstraintKind.JSON_SCHEMA] * 3
    for request in engine.requests:
        assert json.loads(request.constraint.source)["properties"]["value"]["type"] == "integer"


async def test_structured_output_by_anthropics_parse(server, engine):
    engine.chats = [ChatDelta('{"value": 3}', finish=FinishReason.STOP, timing=engine.chats[-1].timing)]
    parsed = await open_anthropic(server).messages.parse(
        model="tiny", max_tokens=9, messages=USER, output_format=Answer
    )
    assert parsed.parsed_output == Answer(value=3)


def parallel_calls(timing):
    """Two calls of one tool at once, their arguments in pieces."""
    return [
        ChatDelta(tool_calls=(ToolCallDelta(0, "c0", "Weather"),)),
        ChatDelta(tool_calls=(ToolCallDelta(0, arguments='{"city": '),)),
        ChatDelta(tool_calls=(ToolCallDelta(0, arguments='"Oslo"}'), ToolCallDelta(1, "c1", "Weather"))),
        ChatDelta(tool_calls=(ToolCallDelta(1, arguments='{"city": "Rome"}'),)),
        ChatDelta(finish=FinishReason.TOOL_CALLS, timing=timing),
    ]


async def test_parallel_calls_are_parsed(server, engine):
    engine.chats = parallel_calls(engine.chats[-1].timing)
    client = open_openai(server)
    tools = [openai.pydantic_function_tool(Weather)]
    answer = await client.chat.completions.parse(model="tiny", messages=USER, tools=tools)
    async with client.chat.completions.stream(model="tiny", messages=USER, tools=tools) as stream:
        streamed = await stream.get_final_completion()
    for one in (answer, streamed):
        calls = one.choices[0].message.tool_calls
        assert [call.function.parsed_arguments for call in calls] == [
            Weather(city="Oslo"),
            Weather(city="Rome"),
        ]
    response = await client.responses.parse(
        model="tiny",
        input="x",
        tools=[{**openai.pydantic_function_tool(Weather)["function"], "type": "function"}],
    )
    assert [call.parsed_arguments for call in response.output] == [{"city": "Oslo"}, {"city": "Rome"}]


async def test_anthropics_runner_of_tools_goes_round(server, engine):
    asked = []

    @anthropic.beta_async_tool
    async def Weather(city: str) -> str:
        """The weather.

        Args:
            city: where.
        """
        asked.append(city)
        return f"rain in {city}"

    timing = engine.chats[-1].timing
    turns = iter([parallel_calls(timing), engine.chats])
    play = engine.chat

    def chat_by_turn(request, model=""):
        engine.chats = next(turns)
        return play(request, model)

    engine.chat = chat_by_turn
    runner = open_anthropic(server).beta.messages.tool_runner(
        model="tiny", max_tokens=9, messages=USER, tools=[Weather]
    )
    final = await runner.until_done()
    assert final.content[0].text == "Hello"
    assert asked == ["Oslo", "Rome"]
    assert engine.request.messages[1:] == (
        ChatMessage(
            "assistant",
            "",
            tool_calls=(
                ToolCall("c0", "Weather", '{"city": "Oslo"}'),
                ToolCall("c1", "Weather", '{"city": "Rome"}'),
            ),
        ),
        ChatMessage("tool", "rain in Oslo", tool_call_id="c0"),
        ChatMessage("tool", "rain in Rome", tool_call_id="c1"),
    )
