"""Where requests go: to a remote, to the model in memory, and to the fallback while a remote is down."""

import asyncio
import logging
from contextlib import aclosing

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from engine.backends.openai.circuit import FAILURES_TO_OPEN, Health
from engine.errors import EngineUnavailable, HearthError, RequestError
from engine.generation.embedding import Embeddings
from engine.service.host import ModelHost
from engine.service.router import Router
from engine.service.served import ServedModel
from engine.types import (
    ChatDelta,
    ChatMessage,
    ChatRequest,
    CompletionRequest,
    EngineStatus,
    FinishReason,
    InfillRequest,
    TextDelta,
)

HOLE = InfillRequest("canary", "b")
CHAT = ChatRequest((ChatMessage("user", "canary"),))


class Engine:
    """Of this machine: answers with its own name."""

    def __init__(self, model, log):
        self.model, self.log = model, log

    async def infill(self, request):
        self.log.append("infill")
        yield TextDelta(self.model, finish=FinishReason.STOP)

    async def complete(self, request):
        yield TextDelta(self.model, finish=FinishReason.STOP)

    async def chat(self, request):
        yield ChatDelta(self.model, finish=FinishReason.STOP)

    async def warm(self, request):
        self.log.append("warm")

    async def tokenize(self, text, *, special):
        return [1]

    async def detokenize(self, ids):
        return self.model

    async def count_tokens(self, request):
        return 1

    async def embed(self, texts):
        return Embeddings([np.array([0.5], np.float32)] * len(texts), len(texts))

    async def status(self):
        return EngineStatus("ready", self.model)

    async def wait_loaded(self):
        pass

    async def close(self):
        pass


class Local:
    """This machine: what was loaded and done on it."""

    def __init__(self):
        self.loaded, self.log = [], []

    async def open(self, model, threads):
        self.loaded.append(model)
        return Engine(model, self.log)

    async def known(self, used):
        return [ServedModel(name) for name in ("local", "small")]


@pytest.fixture
def local():
    return Local()


@pytest.fixture
async def make_router(local, make_remote):
    made = []

    def make(default="local", **settings):
        remote = make_remote(**{"retries": 0, **settings})
        host = ModelHost(
            local.open, local.known, default="" if default == "near" else default, idle_seconds=0
        )
        made.append(Router(host, [remote], default=default))
        made[-1].remote = remote
        return made[-1]

    yield make
    for router in made:
        await router.close()


async def text(stream):
    async with aclosing(stream):
        return "".join([delta.text async for delta in stream])


async def down(router, fake_remote):
    """Take the server away, and let the router find out."""
    await fake_remote.stop()
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(EngineUnavailable):
            await text(router.remote.chat(CHAT, "near"))
    assert router.remote.connection.health is Health.DOWN


async def test_each_model_is_asked_where_it_is(make_router, local):
    router = make_router()
    assert await text(router.chat(CHAT, "near")) == "Hello"
    assert local.loaded == []  # a remote's request takes no turn and loads nothing
    assert await text(router.chat(CHAT, "small")) == "small"
    assert await text(router.chat(CHAT)) == "small"  # what is in memory
    assert await text(router.infill(HOLE, "near")) == "one two"
    assert await text(router.complete(CompletionRequest("x"), "near")) == "one two"
    assert router.host.counts.requests == 2
    (state,) = router.states()
    assert (state.counts.requests, state.counts.running, state.counts.failed) == (3, 0, 0)
    assert [model.name for model in await router.models()] == ["local", "small", "near"]


async def test_a_remote_s_model_may_be_the_default(make_router, local):
    router = make_router(default="near")
    assert await text(router.infill(HOLE)) == "one two"
    assert await router.count_tokens(CHAT) == 11
    assert await router.tokenize("a") == [97]
    assert await router.detokenize([98]) == "b"
    await router.load("near")
    assert local.loaded == []
    status = await router.status()
    assert (status.state, status.model, status.supports_infill) == ("ready", "near", True)
    assert status.context_tokens == 4096


async def test_what_generates_nothing_goes_where_its_model_is(make_router, local, fake_remote):
    router = make_router()
    assert await router.tokenize("a", model="near") == [97]
    assert await router.tokenize("a", model="small") == [1]
    assert await router.detokenize([97], model="near") == "a"
    assert await router.detokenize([97], model="small") == "small"
    assert await router.count_tokens(CHAT, "near") == 11
    assert await router.count_tokens(CHAT, "small") == 1
    rows = [{"embedding": [1.0]}]
    fake_remote.on("/v1/embeddings", fake_remote.value({"data": rows, "usage": {"prompt_tokens": 3}}))
    made = await router.embed(["a"], "near")
    assert (np.array(made.vectors).tolist(), made.tokens) == ([[1.0]], 3)
    made = await router.embed(["a"], "small")
    assert (np.array(made.vectors).tolist(), made.tokens) == ([[0.5]], 1)


async def test_warming_sends_a_remote_nothing(make_router, local, fake_remote):
    router = make_router(models={"near": {"name": "big", "fim": "qwen-coder"}, "talk": "plain"})
    await router.warm(HOLE, "near")
    assert fake_remote.requests == []
    with pytest.raises(RequestError, match="no known fill-in-the-middle format"):
        await router.warm(HOLE, "talk")
    await router.warm(HOLE, "small")
    assert local.log == ["warm"]


async def test_while_it_is_down_the_fallback_answers_and_everybody_is_told(
    make_router, local, fake_remote, pauses, caplog
):
    caplog.set_level(logging.INFO)
    router = make_router(fallback="small")
    assert await text(router.chat(CHAT, "near")) == "Hello"
    await fake_remote.stop()
    pauses.go.clear()
    for _ in range(FAILURES_TO_OPEN + 1):
        assert await text(router.chat(CHAT, "near")) == "small"
    assert await text(router.infill(HOLE, "near")) == "small"
    await router.warm(HOLE, "near")
    assert local.log == ["infill", "warm"]
    status = await router.status("near")
    assert status.state == "ready"
    assert "Meanwhile small of this machine answers" in status.message
    (state,) = router.states()
    assert (state.health, state.counts.fallbacks) == ("down", FAILURES_TO_OPEN + 2)
    assert list(state.reasons) == [fake_remote.url]
    assert "the remote team does not answer; the fallback does" in caplog.text
    assert "canary" not in caplog.text
    registry = CollectorRegistry()
    registry.register(router.collector())
    shown = generate_latest(registry).decode()
    assert 'hearth_remote_up{remote="team"} 0.0' in shown
    assert f'hearth_remote_fallbacks_total{{remote="team"}} {float(FAILURES_TO_OPEN + 2)}' in shown
    # And back again.
    await fake_remote.start()
    pauses.go.set()
    while router.remote.connection.health is not Health.UP:
        await asyncio.sleep(0)
    assert await text(router.chat(CHAT, "near")) == "Hello"
    assert (await router.status("near")).message == ""


async def test_without_a_fallback_the_failure_is_told(make_router, local, fake_remote):
    router = make_router()
    await down(router, fake_remote)
    for stream in (router.chat(CHAT, "near"), router.infill(HOLE, "near")):
        with pytest.raises(EngineUnavailable, match="The remote team is down") as caught:
            await text(stream)
        assert caught.value.meaning
        assert caught.value.action
    assert (await router.status("near")).state == "failed"
    with pytest.raises(EngineUnavailable, match="cannot be connected to"):
        await router.load("near")
    assert local.loaded == []
    assert router.states()[0].counts.failed == 2


async def test_what_only_its_own_model_can_answer_does_not_fall_back(make_router, local, fake_remote):
    router = make_router(fallback="small")
    await down(router, fake_remote)
    with pytest.raises(EngineUnavailable):
        await router.tokenize("a", model="near")
    with pytest.raises(EngineUnavailable):
        await router.embed(["a"], "near")
    with pytest.raises(EngineUnavailable):
        await text(router.complete(CompletionRequest((1, 2)), "near"))
    assert await text(router.complete(CompletionRequest("x"), "near")) == "small"
    await router.load("near")
    assert local.loaded == ["small"]


async def test_an_answer_that_has_begun_does_not_fall_back(make_router, local, fake_remote):
    router = make_router(fallback="small")
    piece = fake_remote.chunk(delta={"content": "Hel"})
    fake_remote.on("/v1/chat/completions", fake_remote.stream(piece, done=False))
    stream = router.chat(CHAT, "near")
    assert (await anext(stream)).text == "Hel"
    with pytest.raises(EngineUnavailable, match="broke off"):
        await text(stream)
    assert local.loaded == []


@pytest.mark.parametrize("status", [400, 401, 429, 500])
async def test_a_refusal_is_no_outage(make_router, local, fake_remote, status):
    router = make_router(fallback="small")
    fake_remote.on("/v1/chat/completions", fake_remote.value({"error": {"message": "no"}}, status))
    with pytest.raises(HearthError):
        await text(router.chat(CHAT, "near"))
    assert local.loaded == []


async def test_a_wrong_key_is_told_at_the_load(make_router, fake_remote):
    fake_remote.on("/v1/models", fake_remote.value({"error": {"message": "no"}}, 401))
    router = make_router()
    with pytest.raises(EngineUnavailable, match="refuses the key"):
        await router.load("near")
    assert (await router.status("near")).state == "failed"


async def test_closing_a_stream_reaches_the_remote(make_router, fake_remote):
    piece = fake_remote.chunk(delta={"content": "a"})
    fake_remote.on("/v1/chat/completions", fake_remote.stream(piece, asyncio.Event()))
    router = make_router()
    stream = router.chat(CHAT, "near")
    await anext(stream)
    assert router.states()[0].counts.running == 1
    await stream.aclose()
    await asyncio.wait_for(fake_remote.left.wait(), 60)
    assert router.states()[0].counts.running == 0


async def test_draining_refuses_new_requests_and_lets_others_end(make_router, fake_remote):
    go = asyncio.Event()
    end = fake_remote.chunk(delta={}, finish_reason="stop")
    fake_remote.on(
        "/v1/chat/completions", fake_remote.stream(fake_remote.chunk(delta={"content": "a"}), go, end)
    )
    router = make_router()
    running = router.chat(CHAT, "near")
    await anext(running)
    router.refuse()
    with pytest.raises(EngineUnavailable, match="shutting down"):
        await text(router.chat(CHAT, "near"))
    go.set()
    assert [delta.finish async for delta in running] == [FinishReason.STOP]


async def test_remotes_are_looked_at_in_the_background(make_router, fake_remote):
    router = make_router()
    assert router.states()[0].health == "unknown"
    router.watch()
    while router.states()[0].health != "up":
        await asyncio.sleep(0)
    assert router.states()[0].problems == {}
