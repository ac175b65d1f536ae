"""Replayed calls find the tokens that were written, and only when they say the same."""

import pytest

from engine.chat import CallMemory
from engine.types import ChatMessage, ToolCall

ARGUMENTS = '{"a": 1, "b": [true, "x"]}'


def call(id="call_1", name="read", arguments=ARGUMENTS):
    return ToolCall(id, name, arguments)


def replay(*calls, content="Look."):
    return ChatMessage("assistant", content, tool_calls=calls)


@pytest.fixture
def memory():
    memory = CallMemory()
    memory.remember("Look.\n", [call(), call("call_2")], [1, 2, 3])
    return memory


@pytest.mark.parametrize(
    "arguments", [ARGUMENTS, '{ "b":[true,"x"],\n"a":1 }', '{"b": [true, "\\u0078"], "a": 1}']
)
def test_the_same_calls(memory, arguments):
    assert memory.tokens_of(replay(call(arguments=arguments), call("call_2"))) == (1, 2, 3)


@pytest.mark.parametrize(
    "message",
    [
        replay(call()),
        replay(call(), call("call_3")),
        replay(call("call_2"), call()),
        replay(call(), call("call_2", name="write")),
        replay(call(arguments='{"a": 1, "b": [1, "x"]}'), call("call_2")),
        replay(call(arguments='{"a": true, "b": [true, "x"]}'), call("call_2")),
        replay(call(arguments="{"), call("call_2")),
        replay(call(arguments="[" * 100_000), call("call_2")),
        replay(call(), call("call_2"), content="Other."),
        replay(),
    ],
    ids=range(10),
)
def test_anything_else(memory, message):
    assert memory.tokens_of(message) is None


def test_the_least_recently_used_is_forgotten():
    memory = CallMemory(max_messages=2)
    for number in (1, 2):
        memory.remember("", [call(f"call_{number}")], [number])
    assert memory.tokens_of(replay(call("call_1"), content="")) == (1,)
    memory.remember("", [call("call_3")], [3])
    assert memory.tokens_of(replay(call("call_2"), content="")) is None
    assert memory.tokens_of(replay(call("call_1"), content="")) == (1,)


def test_its_size_in_tokens_is_bounded():
    memory = CallMemory(max_tokens=10)
    for number in range(5):
        memory.remember("", [call(f"call_{number}")], range(4))
    assert len(memory) == 2
    memory.remember("", [call("call_4")], range(4))
    assert len(memory) == 2
    memory.remember("", [call("long")], range(11))
    assert len(memory) == 0
