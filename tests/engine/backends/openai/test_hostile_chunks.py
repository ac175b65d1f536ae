"""Whatever JSON a server sends, its stream gives deltas as promised or one kind of error."""

import asyncio

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from engine.backends.openai.chat_stream import chat_deltas
from engine.backends.openai.chunks import TextChunk, read_chunk
from engine.backends.openai.failures import MalformedAnswer, told_in_stream, wrong_status
from engine.backends.openai.text_stream import text_deltas
from engine.backends.openai.usage import Meter
from engine.errors import HearthError
from engine.types import ChatMessage, ChatRequest, FinishReason

ASK = ChatRequest((ChatMessage("user", "x"),))

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def rarely_wrong(value):
    return st.integers(0, 40).flatmap(lambda roll: ANYTHING if roll == 40 else value)


def some(**fields):
    """An object whose fields are there or not, and rarely wrong."""
    return st.fixed_dictionaries({}, optional={name: rarely_wrong(value) for name, value in fields.items()})


def all_of(**fields):
    """An object whose fields are all there, and rarely wrong."""
    return st.fixed_dictionaries({name: rarely_wrong(value) for name, value in fields.items()})


COUNTS = st.integers(-5, 100)
USAGE = some(prompt_tokens=COUNTS, completion_tokens=COUNTS, prompt_tokens_details=some(cached_tokens=COUNTS))
CALL = all_of(
    index=st.sampled_from([0, 0, 0, 1, 1, 2]),
    function=all_of(name=st.just("f"), arguments=st.sampled_from(["", "", "{}", "{", "}", "1"])),
)
TOKEN = all_of(token=st.just("a"), logprob=st.just(-0.5), bytes=st.lists(st.integers(0, 260), max_size=2))
LOGPROBS = st.sampled_from([1, 2]).flatmap(
    lambda count: all_of(
        content=st.lists(TOKEN, max_size=2),
        tokens=st.just(["a"] * count),
        token_logprobs=st.just([-0.5] * count),
        top_logprobs=st.none() | st.just([{"a": -0.5}] * count),
    )
)
DELTA = some(content=st.just("a"), reasoning=st.just("r"), tool_calls=st.lists(CALL, max_size=1))
FINISH = st.sampled_from(["stop", "length", "tool_calls", "abort"])
WRITTEN = st.fixed_dictionaries({"delta": DELTA, "text": st.just("a")}, optional={"logprobs": LOGPROBS})
LAST = st.fixed_dictionaries({"delta": st.just({}), "finish_reason": rarely_wrong(FINISH)})


def chunk(choice):
    return st.fixed_dictionaries(
        {"choices": rarely_wrong(choice.map(lambda one: [one]))}, optional={"usage": USAGE}
    )


STREAM = st.tuples(st.lists(chunk(WRITTEN), max_size=5), st.lists(chunk(LAST), min_size=1, max_size=1)).map(
    lambda parts: [*parts[0], *parts[1]]
)


async def played(chunks):
    for chunk in chunks:
        yield chunk


def outcome(stream):
    async def gather():
        try:
            return [delta async for delta in stream]
        except MalformedAnswer:
            return None

    return asyncio.run(gather())


@given(STREAM)
def test_chats(chunks):
    deltas = outcome(chat_deltas(played(chunks), ASK, Meter()))
    event("an answer" if deltas else "refused")
    if deltas is None:
        return
    assert [delta.finish for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
    assert deltas[-1].finish is not None
    assert deltas[0].timing is not None
    pieces = [piece for delta in deltas for piece in delta.tool_calls]
    for index in {piece.index for piece in pieces}:
        first, *later = [piece for piece in pieces if piece.index == index]
        assert first.id
        assert first.name
        assert not any(piece.id or piece.name for piece in later)
    assert (deltas[-1].finish is FinishReason.TOOL_CALLS) <= bool(pieces)


@given(STREAM, st.booleans())
def test_completions(chunks, listed):
    deltas = outcome(text_deltas(played(chunks), ("x",), Meter(), listed=listed))
    event("an answer" if deltas else "refused")
    if deltas is None:
        return
    assert deltas[-1].finish in (FinishReason.STOP, FinishReason.LENGTH)
    assert all(delta.tokens >= 0 for delta in deltas)
    assert listed or not any(delta.logprobs for delta in deltas)


@given(ANYTHING, st.binary(max_size=50), st.integers(201, 599), st.text(max_size=10))
def test_errors(error, body, status, header):
    assert isinstance(told_in_stream("team", error), HearthError)
    told = wrong_status("team", "/v1/x", "big", status, {"retry-after": header}, body)
    assert isinstance(told, HearthError)
    assert told.what.isprintable()


@pytest.mark.parametrize("key", ["canary", "\x1b[31m"])
def test_words_about_a_piece_quote_nothing_of_it(key):
    logprobs = {"tokens": ["a"], "token_logprobs": [0.0], "top_logprobs": [{key: "no number"}]}
    chunk = {"choices": [{"text": "a", "logprobs": logprobs}]}
    with pytest.raises(MalformedAnswer) as caught:
        read_chunk(TextChunk, chunk)
    assert "choices.0.logprobs.top_logprobs" in str(caught.value)
    assert key not in str(caught.value)
