"""The engine of an embedding model, over a scripted encoder and over llama.cpp's."""

import asyncio
import threading

import numpy as np
import pytest

from engine.client.encoder import EncoderEngine, open_encoder
from engine.errors import (
    EngineBusy,
    EngineUnavailable,
    HearthError,
    ModelFileError,
    PromptTooLong,
    RequestError,
)
from engine.generation import embedding
from engine.types import ChatMessage, ChatRequest, CompletionRequest, InfillRequest

PATIENCE = 20.0


class Encoder:
    """A text's tokens are its characters; its vector is their sum and their number."""

    name, kernels, threads, context_tokens = "scripted", "none", 1, 10

    def __init__(self):
        self.owners = set()
        self.texts = []
        self.entered = threading.Event()
        self.go = threading.Event()
        self.go.set()
        self.cancelled = self.closed = False
        self.error = None

    def tokenize(self, text):
        self.owners.add(threading.get_ident())
        return np.array([ord(character) for character in text], np.int32)

    def embed(self, tokens):
        self.owners.add(threading.get_ident())
        self.cancelled = False
        self.texts.append("".join(map(chr, tokens)))
        self.entered.set()
        assert self.go.wait(PATIENCE)
        if self.cancelled:
            raise InterruptedError
        if self.error is not None:
            raise self.error
        return np.array([tokens.sum(), len(tokens)], np.float32)

    def cancel(self):
        self.cancelled = True
        self.go.set()

    def close(self):
        self.owners.add(threading.get_ident())
        self.closed = True


@pytest.fixture
def encoder():
    return Encoder()


@pytest.fixture
async def engine(encoder):
    engine = EncoderEngine("scripted", lambda _: encoder)
    await engine.wait_loaded()
    yield engine
    await engine.close()


async def entered(encoder):
    assert await asyncio.to_thread(encoder.entered.wait, PATIENCE)


async def test_vectors_have_length_one_and_come_in_order(engine, encoder):
    made = await engine.embed(["ab", "c"])
    assert made.tokens == 3
    for vector, expected in zip(made.vectors, [(97 + 98, 2), (99, 1)], strict=True):
        np.testing.assert_allclose(vector, np.array(expected) / np.linalg.norm(expected), rtol=1e-6)
    assert threading.get_ident() not in encoder.owners
    assert len(encoder.owners) == 1


async def test_a_text_that_is_too_long_is_named_before_anything_runs(engine, encoder):
    with pytest.raises(PromptTooLong, match="index 1 has 13 tokens, 3 too many"):
        await engine.embed(["a", "x" * 13])
    assert encoder.texts == []


async def test_cancelling_stops_the_text_that_runs_and_those_behind_it(engine, encoder):
    encoder.go.clear()
    first = asyncio.create_task(engine.embed(["a", "b"]))
    await entered(encoder)
    assert (await engine.status()).state == "busy"
    second = asyncio.create_task(engine.embed(["c"]))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert len((await second).vectors) == 1
    assert encoder.texts == ["a", "c"]
    assert (await engine.status()).state == "ready"


async def test_too_many_calls_are_refused(engine, encoder, monkeypatch):
    monkeypatch.setattr(embedding, "MAX_CALLS", 1)
    encoder.go.clear()
    first = asyncio.create_task(engine.embed(["a"]))
    await entered(encoder)
    with pytest.raises(EngineBusy):
        await engine.embed(["b"])
    encoder.go.set()
    await first


async def test_it_writes_no_text_and_says_so(engine):
    chat = ChatRequest((ChatMessage("user", "hi"),))
    streams = [
        engine.infill(InfillRequest("a", "b")),
        engine.complete(CompletionRequest("a")),
        engine.chat(chat),
    ]
    calls = [*map(anext, streams), engine.warm(InfillRequest("a", "b")), engine.tokenize("a")]
    calls += [engine.detokenize([1]), engine.count_tokens(chat)]
    for call in calls:
        with pytest.raises(RequestError, match=r"scripted makes vectors of texts .* writes no text"):
            await call


async def test_a_failure_of_the_engine_is_its_state_from_then_on(engine, encoder):
    encoder.error = EngineUnavailable("It broke.")
    with pytest.raises(EngineUnavailable, match="broke"):
        await engine.embed(["a"])
    assert (await engine.status()).state == "failed"


async def test_loading_that_fails_is_told():
    def load(_):
        raise ModelFileError("No such thing.")

    engine = EncoderEngine("broken", load)
    for call in (engine.wait_loaded(), engine.embed(["a"])):
        with pytest.raises(ModelFileError, match="No such"):
            await call
    assert (await engine.status()).state == "failed"
    await engine.close()


async def test_while_loading_calls_are_refused(encoder):
    gate = threading.Event()

    def load(_):
        assert gate.wait(PATIENCE)
        return encoder

    engine = EncoderEngine("slow", load)
    assert (await engine.status()).state == "loading"
    with pytest.raises(EngineUnavailable, match="still loading"):
        await engine.embed(["a"])
    gate.set()
    await engine.close()
    assert encoder.closed


async def test_closing_gives_up_a_load():
    entered = threading.Event()

    def load(stopped):
        entered.set()
        while not stopped():
            pass
        raise InterruptedError

    engine = EncoderEngine("slow", load)
    loading = asyncio.create_task(engine.wait_loaded())
    assert await asyncio.to_thread(entered.wait, PATIENCE)
    await engine.close()
    with pytest.raises(EngineUnavailable, match="shut down"):
        await loading


async def test_closing_stops_what_runs_and_frees_the_model(engine, encoder):
    encoder.go.clear()
    running = asyncio.create_task(engine.embed(["a"]))
    await entered(encoder)
    await engine.close()
    with pytest.raises(EngineUnavailable):
        await running
    assert encoder.closed
    for call in (engine.embed(["a"]), engine.status()):
        with pytest.raises(HearthError):
            await call


@pytest.mark.oracle
@pytest.mark.usefixtures("llama_cpp_package")
async def test_a_real_encoder(tiny_encoder, llama_cpp):
    path = tiny_encoder(pooling=2)
    engine = open_encoder(path, threads=1, context_tokens=None)
    await engine.wait_loaded()
    texts = ["the reader", "def a(): return"]
    try:
        made = await engine.embed(texts)
        status = await engine.status()
    finally:
        await engine.close()
    assert (status.state, status.kernels, status.context_tokens) == ("ready", "llama.cpp", 2048)
    with llama_cpp(path, pooling="cls") as model:
        for text, vector in zip(texts, made.vectors, strict=True):
            expected = model.embedding(model.tokenize(text))
            assert vector @ (expected / np.linalg.norm(expected)) > 0.9999
            assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
