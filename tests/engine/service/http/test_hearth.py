"""Our own routes: the engine's values, there and back."""

import json
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from engine.errors import EngineBusy, EngineUnavailable
from engine.types import (
    ChatDelta,
    ChatMessage,
    ChatRequest,
    CompletionRequest,
    Constraint,
    ConstraintKind,
    ContextFile,
    EngineStatus,
    InfillRequest,
    Priority,
    SamplingParams,
    TextDelta,
    Tool,
    ToolCall,
    ToolChoice,
)

INFILL = InfillRequest(
    "a€",
    "b",
    path="x.py",
    context=(ContextFile("y.py", "text"),),
    session="s",
    max_tokens=3,
    prompt_budget=100,
    sampling=SamplingParams(temperature=0.5, seed=7),
    stop=("\n",),
)
COMPLETION = CompletionRequest(
    (1, 2, 3), constraint=Constraint(ConstraintKind.REGEX, "a+"), top_logprobs=2, priority=Priority.BACKGROUND
)
CHAT = ChatRequest(
    (
        ChatMessage("user", "x"),
        ChatMessage("assistant", "", reasoning="hm", tool_calls=(ToolCall("c", "f", "{}"),)),
        ChatMessage("tool", "7", tool_call_id="c"),
    ),
    tools=(Tool("f", "d", {"type": "object"}),),
    tool_choice=ToolChoice.NAMED,
    named_tool="f",
    thinking=True,
    thinking_budget=9,
)


@pytest.fixture
def post(server):
    client = server.client()

    async def post(route, request):
        body = request if isinstance(request, bytes) else TypeAdapter(type(request)).dump_json(request)
        return await client.post(
            f"/hearth/v1/{route}", content=body, headers={"content-type": "application/json"}
        )

    return post


@pytest.mark.parametrize(
    ("route", "request_", "kind"),
    [("infill", INFILL, TextDelta), ("complete", COMPLETION, TextDelta), ("chat", CHAT, ChatDelta)],
)
async def test_requests_and_pieces_arrive_as_they_were(post, engine, logprob, route, request_, kind):
    logprobs = (logprob(b"\xff", -0.5, logprob(b"a", -1.0)),)
    engine.texts.insert(0, TextDelta("p", logprob=-0.25, logprobs=logprobs))
    engine.chats.insert(0, ChatDelta("p", logprobs=logprobs))
    response = await post(f"{route}?model=tiny", request_)
    assert response.headers["content-type"] == "application/x-ndjson"
    assert engine.request == request_
    assert engine.models_asked == ["tiny"]
    pieces = [TypeAdapter(kind).validate_json(line) for line in response.content.splitlines()]
    assert pieces == (engine.chats if kind is ChatDelta else engine.texts)


async def test_warm_and_status(post, server, engine):
    response = await post("warm", INFILL)
    assert (response.status_code, response.content) == (204, b"")
    assert engine.request == INFILL
    answer = await server.client().get("/hearth/v1/status")
    assert TypeAdapter(EngineStatus).validate_json(answer.content) == await engine.status()


async def test_a_failure_is_told_whole(post, engine):
    engine.texts = [EngineUnavailable("It is loading.", meaning="No suggestion.", action="Wait.")]
    response = await post("infill", INFILL)
    assert response.status_code == 503
    assert response.json()["error"] == {
        "kind": "engine-unavailable",
        "what": "It is loading.",
        "meaning": "No suggestion.",
        "action": "Wait.",
    }


async def test_a_failure_within_a_stream_is_its_last_line(post, engine):
    engine.texts = [TextDelta("a"), EngineBusy("Full.", retry_after=2.5)]
    lines = (await post("infill", INFILL)).content.splitlines()
    assert lines[-1].startswith(b'{"error"')
    error = json.loads(lines[-1])["error"]
    assert (error["kind"], error["what"], error["retry_after"]) == ("engine-busy", "Full.", 2.5)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (replace(INFILL, sampling=SamplingParams(temperature=-1.0)), "sampling.temperature"),
        (replace(INFILL, sampling=SamplingParams(top_p=1.5)), "sampling.top_p"),
        (replace(INFILL, sampling=SamplingParams(repetition_penalty=0.0)), "sampling.repetition_penalty"),
        (replace(INFILL, max_tokens=-1), "max_tokens"),
        (replace(INFILL, stop=("x",) * 10_000), "stop"),
        (replace(INFILL, stop=("",)), "stop"),
        (b'{"prefix": "a", "suffix": "b", "more": 1}', "more"),
        (b'{"prefix": "a", "suffix": "b", "sampling": {"temperature": "1"}}', "sampling.temperature"),
        (b'{"prefix": "a", "suffix": "b", "sampling": {"heat": 1}}', "sampling.heat"),
        (b'{"prefix": "a", "suffix": "b", "context": [{"path": "x"}]}', "context.0.text"),
        (b'{"prefix": "a"}', "suffix"),
        (b'{"prefix": "a", "suffix": "b", "priority": 9}', "priority"),
    ],
)
@pytest.mark.parametrize("route", ["infill", "warm"])
async def test_what_is_refused(post, engine, route, request_, field):
    response = await post(route, request_)
    assert response.status_code == 400
    assert response.json()["error"]["what"].startswith(f"{field}: ")
    assert not engine.requests


async def test_too_many_log_probabilities(post):
    assert (await post("complete", replace(COMPLETION, top_logprobs=21))).status_code == 400
