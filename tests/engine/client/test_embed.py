"""Embeddings by the whole engine on tiny models: their numbers, their place beside others, their end."""

import asyncio

import numpy as np
import pytest

from engine import _native
from engine.client.in_process import open_in_process
from engine.errors import EngineBusy, PromptTooLong, RequestError
from engine.generation import embedding
from engine.generation.pooling import PooledText
from engine.reference.transformer import Transformer
from engine.tokenizer import Tokenizer
from engine.types import CompletionRequest

TEXTS = ["def add(a, b):\n    return a + b\n", "the reader", "x" * 300, "ü", "the reader"]


@pytest.fixture
async def engine(tiny_model):
    engine = open_in_process(tiny_model("qwen2"), threads=2, context_tokens=512)
    await engine.wait_loaded()
    yield engine
    await engine.close()


def ids_of(path, text):
    return Tokenizer.from_gguf(_native.GgufFile(str(path))).encode(text)


def unit(vector):
    return vector / np.linalg.norm(vector)


async def idle(engine):
    """Once nothing runs: the free pages."""
    while engine._thread.state() != "ready":
        await asyncio.sleep(0)
    return engine._thread.model().backend.free_tokens


async def test_they_are_the_mean_of_the_states_of_the_reference(engine, tiny_model):
    path = tiny_model("qwen2")
    made = await engine.embed(TEXTS)
    reference = Transformer.load(path)
    assert made.tokens == sum(len(ids_of(path, text)) for text in TEXTS)
    for text, vector in zip(TEXTS, made.vectors, strict=True):
        expected = unit(reference.hidden(ids_of(path, text)).mean(axis=0))
        assert vector.dtype == np.float32
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
        assert vector @ expected > 0.99999  # keys and values are in half precision


async def test_a_text_alone_has_the_bits_that_it_has_beside_others(engine):
    together = await engine.embed(TEXTS * 8)  # more than run at once
    for text, vector in zip(TEXTS * 8, together.vectors, strict=True):
        alone = (await engine.embed([text])).vectors[0]
        assert np.array_equal(alone, vector)


async def test_they_leave_completions_as_they_are_and_no_page_behind(engine):
    request = CompletionRequest("def add(", max_tokens=24)
    alone = [delta.text async for delta in engine.complete(request)]
    free = await idle(engine)
    vectors = (await engine.embed(TEXTS)).vectors

    async def completed():
        return [delta.text async for delta in engine.complete(request)]

    made, *texts = await asyncio.gather(engine.embed(TEXTS * 4), completed(), completed())
    assert all(np.array_equal(a, b) for a, b in zip(made.vectors, [*vectors] * 4, strict=True))
    assert ["".join(text) for text in texts] == ["".join(alone)] * 2
    assert await idle(engine) <= free  # what the completions left is in the cache
    while engine._thread._runner._cache.evict_one():
        pass
    backend = engine._thread.model().backend
    assert backend.free_tokens == backend.kv_tokens


async def test_a_short_queue_makes_them_slower_and_does_not_refuse_them(tiny_model):
    engine = open_in_process(tiny_model("qwen2"), threads=1, context_tokens=256, max_requests=1)
    await engine.wait_loaded()
    try:
        assert len((await engine.embed(TEXTS[:2] * 5)).vectors) == 10
    finally:
        await engine.close()


async def test_cancelling_ends_them_and_frees_their_pages(engine):
    free = await idle(engine)
    task = asyncio.create_task(engine.embed([f"{i} " * 150 for i in range(50)]))
    while not engine.metrics().running:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await idle(engine) == free
    assert len((await engine.embed(["a"])).vectors) == 1


async def test_a_text_without_numbers_ends_the_others_of_its_call(engine, monkeypatch):
    class Odd(PooledText):
        def vector(self):
            raise RequestError("The model gave no numbers for this text.")

    free = await idle(engine)
    with monkeypatch.context() as patch:
        patch.setattr(embedding, "PooledText", Odd)
        with pytest.raises(RequestError, match="no numbers"):
            await engine.embed([f"{i} " * 100 for i in range(20)])
    assert await idle(engine) == free
    assert len((await engine.embed(["a"])).vectors) == 1


async def test_a_text_that_is_too_long_is_named_with_its_excess(engine):
    with pytest.raises(PromptTooLong, match=r"index 1 has 600 tokens, 88 too many .* window of 512"):
        await engine.embed(["short", "ü" * 300, "short"])
    assert engine.metrics().prefilled_tokens == 0


async def test_an_empty_text_is_named(engine):
    with pytest.raises(RequestError, match="index 2 is empty"):
        await engine.embed(["a", "b", ""])


async def test_one_call_has_a_limit_of_tokens(engine, monkeypatch):
    monkeypatch.setattr(embedding, "MAX_TOKENS", 10)
    with pytest.raises(RequestError, match="up to index 1 have 12 tokens; one call may have 10"):
        await engine.embed(["ü" * 3, "ü" * 3, "a"])


async def test_calls_wait_for_each_other_and_too_many_are_refused(engine, monkeypatch):
    monkeypatch.setattr(embedding, "MAX_CALLS", 3)
    calls = [asyncio.create_task(engine.embed([text] * 20)) for text in TEXTS[:4]]
    *made, refused = await asyncio.gather(*calls, return_exceptions=True)
    assert [len(one.vectors) for one in made] == [20, 20, 20]
    assert isinstance(refused, EngineBusy)
    assert refused.retry_after > 0
    assert len((await engine.embed(["a"])).vectors) == 1


async def test_a_file_may_ask_for_the_last_tokens_state_and_an_end_token(tiny_model):
    path = tiny_model("qwen3", pooling=3, add_eos=True)
    engine = open_in_process(path, threads=1, context_tokens=256)
    await engine.wait_loaded()
    try:
        made = await engine.embed(["the reader"])
    finally:
        await engine.close()
    ids = ids_of(path, "the reader")
    eos = Tokenizer.from_gguf(_native.GgufFile(str(path))).eos
    assert made.tokens == len(ids) + 1
    expected = unit(Transformer.load(path).hidden([*ids, eos])[-1])
    assert made.vectors[0] @ expected > 0.99999


async def test_a_reranker_makes_no_embeddings(tiny_model):
    engine = open_in_process(tiny_model("qwen3", pooling=4), threads=1, context_tokens=256)
    await engine.wait_loaded()
    try:
        with pytest.raises(RequestError, match="makes no embeddings"):
            await engine.embed(["a"])
    finally:
        await engine.close()
