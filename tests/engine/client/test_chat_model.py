"""Chats with real weights: tool calls, constrained output, log probabilities, warm cache after a call."""

import json
import re
from contextlib import aclosing

import jsonschema
import pytest
import pytest_asyncio

from engine.client import open_in_process
from engine.errors import RequestError
from engine.types import (
    ChatMessage,
    ChatRequest,
    CompletionRequest,
    Constraint,
    ConstraintKind,
    FinishReason,
    SamplingParams,
    Tool,
    ToolCall,
    ToolChoice,
)

pytestmark = pytest.mark.model

WEATHER = Tool(
    "get_weather",
    "The weather of a city",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
CALCULATE = Tool(
    "calculate",
    "Evaluates an expression",
    {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
)
TOOLS = (WEATHER, CALCULATE)
PARIS = ChatMessage("user", "What is the weather in Paris, in celsius?")

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "languages": {
            "type": "array",
            "items": {"type": "string", "maxLength": 20},
            "minItems": 1,
            "maxItems": 3,
        },
    },
    "required": ["name", "age", "languages"],
    "additionalProperties": False,
}
SCHEMAS = [
    ("Describe a programmer called Ada as JSON.", PERSON),
    ("Is Python dynamically typed?", {"enum": ["yes", "no"]}),
    (
        "List two fruits with their prices as JSON.",
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"fruit": {"type": "string", "maxLength": 20}, "price": {"type": "number"}},
                "required": ["fruit", "price"],
            },
            "minItems": 2,
            "maxItems": 2,
        },
    ),
    (
        "Give a point as JSON.",
        {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/p"}], "$defs": {"p": {"type": "object"}}},
    ),
]


@pytest.fixture(scope="module")
def model_path(real_model):
    return real_model("qwen2.5-coder-0.5b")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(model_path):
    engine = open_in_process(model_path, context_tokens=2048)
    await engine.wait_loaded()
    yield engine
    await engine.close()


class Message:
    def __init__(self, deltas):
        self.text = "".join(delta.text for delta in deltas)
        self.finish = deltas[-1].finish
        self.timing = deltas[-1].timing
        self.logprobs = [entry for delta in deltas for entry in delta.logprobs]
        self.tokens = sum(delta.tokens for delta in deltas)
        self.calls = []
        for delta in deltas:
            for call in delta.tool_calls:
                if call.index == len(self.calls):
                    self.calls.append(ToolCall(call.id, call.name, ""))
                before = self.calls[call.index]
                self.calls[call.index] = ToolCall(before.id, before.name, before.arguments + call.arguments)


async def collect(stream):
    async with aclosing(stream):
        return [delta async for delta in stream]


async def ask(engine, *messages, **options):
    return Message(await collect(engine.chat(ChatRequest(messages, **{"max_tokens": 120, **options}))))


@pytest.mark.asyncio(loop_scope="module")
async def test_a_required_call(engine):
    for choice in (ToolChoice.REQUIRED, ToolChoice.NAMED):
        answer = await ask(
            engine,
            PARIS,
            tools=TOOLS,
            tool_choice=choice,
            named_tool="get_weather",
            parallel_tool_calls=False,
        )
        assert answer.finish is FinishReason.TOOL_CALLS
        (call,) = answer.calls
        assert call.name == "get_weather"
        arguments = json.loads(call.arguments)
        jsonschema.validate(arguments, WEATHER.parameters)
        assert "Paris" in arguments["city"]
        assert answer.tokens == answer.timing.generated_tokens


@pytest.mark.asyncio(loop_scope="module")
async def test_a_call_by_choice_and_its_replay_hits_the_cache(engine):
    first = await ask(engine, PARIS, tools=TOOLS, session="tools")
    assert first.finish is FinishReason.TOOL_CALLS
    call = first.calls[0]
    jsonschema.validate(json.loads(call.arguments), WEATHER.parameters)

    # As clients replay it: the same values, written anew.
    calls = tuple(
        ToolCall(call.id, call.name, json.dumps(json.loads(call.arguments), separators=(",", ":")))
        for call in first.calls
    )
    results = [ChatMessage("tool", "18 degrees, sunny", tool_call_id=call.id) for call in calls]
    replayed = ChatMessage("assistant", first.text, tool_calls=calls)
    second = await ask(engine, PARIS, replayed, *results, tools=TOOLS, session="tools")
    # All of the first turn but its end token, which was drawn and never computed.
    assert second.timing.cached_tokens >= first.timing.prompt_tokens + first.timing.generated_tokens - 1
    assert "18" in second.text or second.calls


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("question", "schema"), SCHEMAS, ids=range(len(SCHEMAS)))
@pytest.mark.parametrize(
    "sampling", [SamplingParams(), SamplingParams(temperature=1.0, seed=7)], ids=["greedy", "hot"]
)
async def test_json_schemas(engine, question, schema, sampling):
    constraint = Constraint(ConstraintKind.JSON_SCHEMA, json.dumps(schema))
    answer = await ask(
        engine, ChatMessage("user", question), constraint=constraint, max_tokens=300, sampling=sampling
    )
    assert answer.finish is FinishReason.STOP
    jsonschema.validate(json.loads(answer.text), schema)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_json_object_that_must_be_cut(engine):
    answer = await ask(
        engine,
        ChatMessage("user", "Describe the solar system as a JSON object."),
        constraint=Constraint(ConstraintKind.JSON_OBJECT),
        max_tokens=12,
    )
    assert answer.finish is FinishReason.LENGTH
    assert answer.text.startswith("{")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_pattern(engine):
    pattern = r"\d{4}-\d{2}-\d{2}"
    answer = await ask(
        engine,
        ChatMessage("user", "When did Apollo 11 land on the moon?"),
        constraint=Constraint(ConstraintKind.REGEX, pattern),
    )
    assert re.fullmatch(pattern, answer.text)


@pytest.mark.asyncio(loop_scope="module")
async def test_log_probabilities(engine):
    question = ChatMessage("user", "What is the capital of France? Answer in one word.")
    answer = await ask(engine, question, top_logprobs=3, max_tokens=8)
    assert b"".join(entry.bytes for entry in answer.logprobs).decode() == answer.text
    assert all(entry.top[0].logprob >= entry.logprob for entry in answer.logprobs)
    assert answer.logprobs[0].logprob > -0.5


@pytest.mark.asyncio(loop_scope="module")
async def test_completions_tokens_and_counts(engine):
    (status,) = [await engine.status()]
    assert status.tool_format == "hermes"
    assert not status.thinks
    ids = await engine.tokenize("def add(a, b):\n    return")
    assert await engine.detokenize(ids) == "def add(a, b):\n    return"
    assert await engine.tokenize("<|im_end|>") != await engine.tokenize("<|im_end|>", special=True)
    texts = []
    for prompt in ("def add(a, b):\n    return", tuple(ids)):
        deltas = await collect(
            engine.complete(CompletionRequest(prompt, max_tokens=8, stop=("\n",), top_logprobs=0))
        )
        texts.append("".join(delta.text for delta in deltas))
        assert deltas[-1].timing.prompt_tokens == len(ids)
        assert (
            b"".join(entry.bytes for delta in deltas for entry in delta.logprobs)
            .decode()
            .startswith(texts[-1])
        )
    assert texts == [" a + b"] * 2

    request = ChatRequest((PARIS,), tools=TOOLS, max_tokens=1)
    count = await engine.count_tokens(request)
    assert (await collect(engine.chat(request)))[-1].timing.prompt_tokens == count
    with pytest.raises(RequestError, match=r"\d+ tokens, \d+ too many"):
        await ask(engine, ChatMessage("user", "word " * 3000))
