"""A Hearth whose remote is another Hearth: our own OpenAI API is the upstream, over a real connection."""

import asyncio

import openai
import pytest

from engine.backends.openai.remote import Remote
from engine.backends.openai.settings import RemoteSettings
from engine.errors import EngineBusy, PromptTooLong
from engine.service.host import ModelHost
from engine.service.http.app import build_app
from engine.service.http.metrics import Metrics
from engine.service.router import Router
from engine.types import (
    ChatDelta,
    Constraint,
    ConstraintKind,
    FinishReason,
    TextDelta,
    Timing,
    ToolCallDelta,
    ToolChoice,
)

TOKEN = "sk-of-the-team"
TIMING = Timing(10, 4, 0.0, 0.1, 0.2, 3)
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
USER = [{"role": "user", "content": "Hi"}]


@pytest.fixture
async def near(engine, serve, monkeypatch):
    """The service on this machine; `engine` is the scripted one of the team's machine."""
    monkeypatch.setenv("TEAM_KEY", TOKEN)

    async def nothing(name, threads):
        raise AssertionError(name)

    async def known(used):
        return []

    async with serve(build_app(engine, token=TOKEN)) as far:
        settings = {
            "name": "team",
            "url": far.url,
            "server": "hearth",
            "key": "env:TEAM_KEY",
            "models": {"near": "tiny"},
        }
        host = ModelHost(nothing, known, default="", idle_seconds=0)
        router = Router(host, [Remote(RemoteSettings.model_validate(settings))], default="near")
        app = build_app(router, token=None, counters=Metrics(collectors=[router.collector()]))
        try:
            async with serve(app) as near:
                yield near
        finally:
            await router.close()


@pytest.fixture
def client(near):
    return openai.AsyncOpenAI(
        base_url=f"{near.url}/v1", api_key="none", max_retries=0, http_client=near.client()
    )


async def test_a_chat_streams_through_both(client, engine):
    stream = await client.chat.completions.create(
        model="near", messages=USER, stream=True, stream_options={"include_usage": True}, max_tokens=5
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hello"
    assert chunks[-1].usage.prompt_tokens == 10
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == 4
    assert engine.models_asked == ["tiny"]
    assert engine.request.max_tokens == 5
    assert engine.request.messages[0].content == "Hi"


async def test_tools_structure_thinking_and_seeds_arrive(client, engine):
    engine.chats = [
        ChatDelta(reasoning="hm", tokens=1, timing=TIMING),
        ChatDelta(tool_calls=(ToolCallDelta(0, "c1", "look", '{"a"'),), tokens=1),
        ChatDelta(tool_calls=(ToolCallDelta(0, arguments=": 1}"),), tokens=1),
        ChatDelta(finish=FinishReason.TOOL_CALLS, timing=TIMING),
    ]
    answer = await client.chat.completions.create(
        model="near",
        messages=USER,
        tools=TOOLS,
        tool_choice={"type": "function", "function": {"name": "look"}},
        parallel_tool_calls=False,
        response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
        seed=5,
        temperature=0.5,
        stop=["END"],
        extra_body={"thinking": {"type": "enabled", "budget_tokens": 50}},
    )
    message = answer.choices[0].message
    assert message.reasoning_content == "hm"
    assert message.tool_calls[0].function.arguments == '{"a": 1}'
    assert answer.choices[0].finish_reason == "tool_calls"
    request = engine.request
    assert (request.tool_choice, request.named_tool) == (ToolChoice.NAMED, "look")
    assert request.parallel_tool_calls is False
    assert request.constraint == Constraint(ConstraintKind.JSON_SCHEMA, '{"type": "object"}')
    assert (request.thinking, request.thinking_budget) == (True, 50)
    assert (request.sampling.seed, request.sampling.temperature, request.stop) == (5, 0.5, ("END",))


async def test_a_hole_is_filled_by_the_team_s_machine(near, engine):
    answer = await near.client().post("/infill", json={"input_prefix": "<|im_end|>", "input_suffix": "b"})
    assert answer.json()["content"] == "one two"
    assert (engine.request.prefix, engine.request.suffix) == ("<|im_end|>", "b")


async def test_leaving_here_cancels_there(near, engine):
    engine.chats = [ChatDelta("a", tokens=1), asyncio.Event()]
    body = {"model": "near", "messages": USER, "stream": True}
    async with near.client().stream("POST", "/v1/chat/completions", json=body) as response:
        async for _ in response.aiter_bytes():
            break
    await asyncio.wait_for(engine.closed.wait(), 60)
    assert engine.cut_short == 1


async def test_errors_keep_their_meaning(client, engine):
    engine.chats = [PromptTooLong("The prompt is 7 tokens too long.")]
    with pytest.raises(openai.BadRequestError, match="7 tokens too long") as told:
        await client.chat.completions.create(model="near", messages=USER)
    assert told.value.code == "context_length_exceeded"
    engine.chats = [EngineBusy("The queue is full.", retry_after=60)]
    with pytest.raises(openai.RateLimitError) as busy:
        await client.chat.completions.create(model="near", messages=USER)
    assert busy.value.response.headers["retry-after"] == "60"
    engine.chats = [ValueError("canary")]
    with pytest.raises(openai.APIStatusError) as caught:
        await client.chat.completions.create(model="near", messages=USER)
    assert "canary" not in str(caught.value)


async def test_completions_and_log_probabilities(client, engine, logprob):
    token = logprob(b"one", -0.5, logprob(b"two", -1.0))
    engine.texts = [
        TextDelta("one", logprobs=(token,), timing=TIMING),
        TextDelta("", tokens=0, finish=FinishReason.LENGTH, timing=TIMING),
    ]
    answer = await client.completions.create(model="near", prompt="x", logprobs=1)
    assert answer.choices[0].text == "one"
    assert answer.choices[0].logprobs.tokens == ["one"]
    assert answer.choices[0].logprobs.top_logprobs == [{"two": -1.0}]
    assert answer.choices[0].finish_reason == "length"


async def test_the_remote_s_models_are_listed_and_counted(client, near):
    assert [model.id for model in (await client.models.list()).data] == ["near"]
    await client.chat.completions.create(model="near", messages=USER)
    shown = (await near.client().get("/metrics")).text
    assert 'hearth_remote_up{remote="team"} 1.0' in shown
    assert 'hearth_remote_requests_total{remote="team"} 1.0' in shown
    assert "hearth_prompt_tokens_total 10.0" in shown
    assert (await near.client().get("/health")).status_code == 200
    status = (await near.client().get("/hearth/v1/status?model=near")).json()
    assert (status["state"], status["supports_infill"]) == ("ready", True)
