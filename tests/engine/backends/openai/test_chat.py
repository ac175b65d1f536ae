"""Chats: what is sent of a request, what is refused, and what is read of an answer."""

import asyncio
import json
from contextlib import suppress
from dataclasses import fields, replace

import pytest

from engine.backends.openai.chat_body import chat_body
from engine.backends.openai.dialects import DIALECTS, Server
from engine.errors import EngineUnavailable, RequestError
from engine.types import (
    ChatDelta,
    ChatMessage,
    ChatRequest,
    Constraint,
    ConstraintKind,
    FinishReason,
    SamplingParams,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolChoice,
)

ASK = ChatRequest((ChatMessage("user", "Hi"),))
TOOL = Tool("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
SCHEMA = Constraint(ConstraintKind.JSON_SCHEMA, '{"type": "object"}')
OTHER = {
    "messages": (ChatMessage("user", "Ho"),),
    "max_tokens": 9,
    "sampling": SamplingParams(temperature=0.5),
    "stop": ("x",),
    "tools": (TOOL,),
    "tool_choice": ToolChoice.REQUIRED,
    "named_tool": "look",
    "parallel_tool_calls": False,
    "constraint": SCHEMA,
    "thinking": True,
    "thinking_budget": 100,
    "top_logprobs": 2,
}
SAMPLING = {
    "temperature": 0.5,
    "top_k": 3,
    "top_p": 0.5,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "penalty_window": 32,
    "seed": 4,
}


def body(request, server=Server.VLLM):
    return chat_body(request, "big", DIALECTS[server], "team")


@pytest.mark.parametrize("server", list(Server))
@pytest.mark.parametrize("name", [one.name for one in fields(ChatRequest)])
def test_no_field_is_dropped_in_silence(server, name):
    if name in ("session", "priority"):  # they order work on this machine and change no answer
        return
    if name in ("timeout_s", "thinking_optional"):  # kept here; each has its tests
        return
    base = ASK
    if name in ("tool_choice", "parallel_tool_calls"):
        base = replace(ASK, tools=(TOOL,))
    if name == "named_tool":
        base = replace(ASK, tools=(TOOL,), tool_choice=ToolChoice.NAMED, named_tool="other")
    with suppress(RequestError):  # refused: which ones are is the table of the next tests
        assert body(replace(base, **{name: OTHER[name]}), server) != body(base, server)


@pytest.mark.parametrize("server", list(Server))
@pytest.mark.parametrize("name", [one.name for one in fields(SamplingParams)])
def test_no_sampling_parameter_is_dropped_in_silence(server, name):
    base = SamplingParams(presence_penalty=0.1) if name == "penalty_window" else SamplingParams()
    asked = replace(ASK, sampling=replace(base, **{name: SAMPLING[name]}))
    with suppress(RequestError):
        assert body(asked, server) != body(replace(ASK, sampling=base), server)


def test_the_whole_body():
    messages = (
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "Look."),
        ChatMessage("assistant", "", reasoning="hm", tool_calls=(ToolCall("c1", "look", '{"at": "x"}'),)),
        ChatMessage("tool", "a tree", tool_call_id="c1"),
    )
    request = ChatRequest(
        messages,
        max_tokens=7,
        sampling=SamplingParams(temperature=0.25, top_k=5, seed=3),
        stop=("END",),
        tools=(TOOL,),
        tool_choice=ToolChoice.NAMED,
        named_tool="look",
        parallel_tool_calls=False,
        constraint=SCHEMA,
        thinking=True,
        thinking_budget=50,
        top_logprobs=2,
    )
    schema = {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
    }
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}
    assert body(request) == {
        "model": "big",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": None, "reasoning": "hm", "tool_calls": [call]},
            {"role": "tool", "content": "a tree", "tool_call_id": "c1"},
        ],
        "max_tokens": 7,
        "temperature": 0.25,
        "top_p": 1.0,
        "top_k": 5,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "seed": 3,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "stop": ["END"],
        "tools": [
            {
                "type": "function",
                "function": {"name": "look", "description": "Looks.", "parameters": TOOL.parameters},
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": False,
        "response_format": schema,
        "logprobs": True,
        "top_logprobs": 2,
        "chat_template_kwargs": {"enable_thinking": True},
        "thinking_token_budget": 50,
    }


def test_what_is_off_is_said_where_the_model_s_own_defaults_would_hold():
    assert body(ASK)["top_k"] == -1
    assert body(ASK, Server.HEARTH)["top_k"] == 0
    assert "top_k" not in body(ASK, Server.OPENAI)
    assert body(ASK, Server.OPENAI)["max_completion_tokens"] == ASK.max_tokens


@pytest.mark.parametrize(
    ("server", "constraint", "fields"),
    [
        (Server.VLLM, Constraint(ConstraintKind.REGEX, "a+"), {"structured_outputs": {"regex": "a+"}}),
        (Server.VLLM, Constraint(ConstraintKind.LARK, "g"), {"structured_outputs": {"grammar": "g"}}),
        (Server.SGLANG, Constraint(ConstraintKind.REGEX, "a+"), {"regex": "a+"}),
        (Server.SGLANG, Constraint(ConstraintKind.LARK, "g"), None),
        (Server.HEARTH, Constraint(ConstraintKind.REGEX, "a+"), None),
        (Server.OPENAI, Constraint(ConstraintKind.LARK, "g"), None),
        (Server.OPENAI, Constraint(ConstraintKind.JSON_OBJECT), {"response_format": {"type": "json_object"}}),
    ],
)
def test_constraints_in_each_server_s_words(server, constraint, fields):
    request = replace(ASK, constraint=constraint)
    if fields is None:
        with pytest.raises(RequestError, match="The remote team cannot do this"):
            body(request, server)
    else:
        assert fields.items() <= body(request, server).items()


@pytest.mark.parametrize(
    ("server", "change"),
    [
        (Server.SGLANG, {"thinking_budget": 5}),
        (Server.OPENAI, {"thinking": False}),
        (Server.OPENAI, {"messages": (ChatMessage("assistant", "a", reasoning="r"),)}),
        (Server.OPENAI, {"sampling": SamplingParams(top_k=1)}),
        (Server.VLLM, {"sampling": SamplingParams(presence_penalty=1.0, penalty_window=8)}),
        (Server.VLLM, {"constraint": Constraint(ConstraintKind.JSON_SCHEMA, "{")}),
        (Server.VLLM, {"tool_choice": ToolChoice.REQUIRED}),
        (Server.VLLM, {"tool_choice": ToolChoice.NAMED, "named_tool": "look"}),
    ],
)
def test_what_a_server_cannot_do_is_refused(server, change):
    with pytest.raises(RequestError):
        body(replace(ASK, **change), server)


@pytest.mark.parametrize(
    ("server", "sent"),
    [(Server.VLLM, True), (Server.SGLANG, True), (Server.HEARTH, False), (Server.OPENAI, False)],
)
def test_thinking_that_is_optional_is_asked_for_where_no_model_refuses_it(server, sent):
    asked = body(replace(ASK, thinking=True, thinking_optional=True), server)
    assert asked == body(replace(ASK, thinking=True), server) if sent else asked == body(ASK, server)


async def test_a_message_whose_time_is_over(fake_remote, make_remote, gather):
    begun = fake_remote.chunk(delta={"content": "Hel"})
    fake_remote.on("/v1/chat/completions", fake_remote.stream(begun, asyncio.Event()))
    *begun, last = await gather(make_remote().chat(replace(ASK, timeout_s=0.2), "near"))
    assert [delta.text for delta in begun] == ["Hel"]
    assert (last.finish, last.text) == (FinishReason.LENGTH, "")
    assert last.timing.generated_tokens >= 1


async def test_a_message(fake_remote, make_remote, gather):
    deltas = await gather(make_remote().chat(ASK, "near"))
    assert [delta.text for delta in deltas] == ["Hel", "lo", ""]
    assert deltas[-1].finish is FinishReason.STOP
    timing = deltas[-1].timing
    assert (timing.prompt_tokens, timing.cached_tokens, timing.generated_tokens) == (7, 4, 3)
    assert sum(delta.tokens for delta in deltas) == 3
    assert deltas[0].timing is not None
    assert deltas[1].timing is None
    assert fake_remote.body["model"] == "big"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_comes_apart(fake_remote, make_remote, gather, field):
    chunk = fake_remote.chunk
    fake_remote.on(
        "/v1/chat/completions",
        fake_remote.stream(
            chunk(delta={field: "hm"}),
            chunk(delta={"content": "so"}),
            chunk(delta={}, finish_reason="length"),
        ),
    )
    deltas = await gather(make_remote().chat(ASK, "near"))
    assert [(delta.reasoning, delta.text) for delta in deltas] == [("hm", ""), ("", "so"), ("", "")]
    assert deltas[-1].finish is FinishReason.LENGTH


def piece(index, arguments, **more):
    function = {"arguments": arguments, **({"name": more.pop("name")} if "name" in more else {})}
    return {"tool_calls": [{"index": index, "function": function, **more}]}


def calls(*deltas, finish="tool_calls"):
    def reply(fake):
        chunks = [fake.chunk(delta=delta) for delta in deltas]
        return fake.stream(*chunks, fake.chunk(delta={}, finish_reason=finish))

    return reply


TWO_CALLS = (
    piece(0, "", id="a", name="look"),
    piece(0, '{"at":'),
    piece(0, '"x"}'),
    piece(1, "", id="b", name="go"),
)


@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
async def test_tool_calls_come_in_pieces_and_are_whole_at_the_end(fake_remote, make_remote, gather, finish):
    fake_remote.on("/v1/chat/completions", calls(*TWO_CALLS, finish=finish)(fake_remote))
    deltas = await gather(make_remote().chat(replace(ASK, tools=(TOOL,)), "near"))
    assert deltas[-1].finish is FinishReason.TOOL_CALLS
    pieces = [piece for delta in deltas for piece in delta.tool_calls]
    assert pieces[0] == ToolCallDelta(0, "a", "look", "")
    assert pieces[3] == ToolCallDelta(1, "b", "go", "")
    written = ["".join(one.arguments for one in pieces if one.index == index) for index in (0, 1)]
    assert [json.loads(text) for text in written] == [{"at": "x"}, {}]


async def test_a_call_without_an_id_gets_one(fake_remote, make_remote, gather):
    fake_remote.on("/v1/chat/completions", calls(piece(0, "{}", name="look"))(fake_remote))
    (first, _) = await gather(make_remote().chat(ASK, "near"))
    assert first.tool_calls[0].id.startswith("call_")


async def test_a_call_that_ran_out_of_tokens_is_no_tool_call(fake_remote, make_remote, gather):
    fake_remote.on("/v1/chat/completions", calls(*TWO_CALLS[:2], finish="length")(fake_remote))
    assert (await gather(make_remote().chat(ASK, "near")))[-1].finish is FinishReason.LENGTH


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (calls(*TWO_CALLS[:2]), "not whole"),
        (calls(*TWO_CALLS[:2], finish="stop"), "not whole"),
        (calls(piece(0, "[]", name="look")), "not whole"),
        (calls(piece(1, "{}", name="look")), "not in order"),
        (calls(piece(0, "{}", id="a")), "no name"),
        (calls({"content": 3}), "choices.0.delta.content"),
        (calls({"content": "x"}, finish="content_filter"), "cut the answer off"),
        (calls({"content": "x"}, finish="because"), "unknown reason"),
        (calls({"content": "x"}, finish=None), "no finish_reason"),
        (lambda fake: fake.stream({"choices": [{"delta": {}}, {"delta": {}}]}), "several choices"),
        (lambda fake: fake.stream({"no": "choices"}), "choices"),
        (lambda fake: fake.stream([1]), "not an object"),
        (lambda fake: fake.stream(b"data: {\n\n"), "not JSON"),
        (
            lambda fake: fake.stream(
                fake.chunk(delta={}, finish_reason="stop"), fake.chunk(delta={"content": "x"})
            ),
            "after its end",
        ),
        (lambda fake: fake.stream({"error": {"message": "out of memory", "code": 500}}), "out of memory"),
    ],
)
async def test_answers_that_are_not_what_the_api_promises(fake_remote, make_remote, gather, reply, told):
    fake_remote.on("/v1/chat/completions", reply(fake_remote))
    with pytest.raises(EngineUnavailable, match=told):
        await gather(make_remote().chat(ASK, "near"))


async def test_log_probabilities(fake_remote, make_remote, gather):
    token = {"token": "\u00e9", "logprob": -0.5, "bytes": [195, 169]}
    other = {"token": "bytes:\\xe2\\x82", "logprob": -2.0, "bytes": None}
    listed = {"content": [{**token, "top_logprobs": [token, other]}]}
    fake_remote.on(
        "/v1/chat/completions",
        fake_remote.stream(
            fake_remote.chunk(delta={"content": "\u00e9"}, logprobs=listed),
            fake_remote.chunk(delta={}, finish_reason="stop", stop_reason="END"),
        ),
    )
    first, last = await gather(make_remote().chat(replace(ASK, stop=("END",), top_logprobs=2), "near"))
    (one,) = first.logprobs
    assert (one.bytes, one.logprob) == ("\u00e9".encode(), -0.5)
    assert [(top.bytes, top.logprob) for top in one.top] == [("\u00e9".encode(), -0.5), (b"\xe2\x82", -2.0)]
    assert last.stop == "END"


async def test_pieces_that_say_nothing_are_left_out(fake_remote, make_remote, gather):
    empty = fake_remote.chunk(delta={"role": "assistant", "content": None, "tool_calls": []})
    end = fake_remote.chunk(delta={"content": ""}, finish_reason="stop")
    fake_remote.on("/v1/chat/completions", fake_remote.stream(empty, empty, end))
    (only,) = await gather(make_remote().chat(ASK, "near"))
    assert isinstance(only, ChatDelta)
    assert only.finish is FinishReason.STOP
