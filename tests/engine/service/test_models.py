"""Names of models, and real engines behind them."""

import asyncio
import threading
from contextlib import aclosing

import numpy as np
import pytest

from engine.client import in_process
from engine.client import models as catalogue
from engine.errors import EngineBusy, EngineUnavailable, ModelFileError, RequestError
from engine.generation.disk_tier import DiskRoom
from engine.service import models
from engine.service.host import ModelHost
from engine.service.models import KnownModels, model_opener
from engine.service.served import ServedModel
from engine.service.settings import CacheSettings, ServiceSettings
from engine.types import ChatMessage, ChatRequest, CompletionRequest, Constraint, ConstraintKind


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HEARTH_HOME", str(tmp_path / "h"))
    monkeypatch.delenv("HEARTH_MODEL_PATH", raising=False)


async def test_the_known_are_those_on_this_machine_and_the_one_in_use(home, tiny_model):
    now = 0.0
    known = KnownModels(clock=lambda: now)
    assert await known("mine") == [ServedModel("mine")]
    catalogue.add("mine", tiny_model("qwen2"))
    assert await known("/a/model.gguf") == [ServedModel("/a/model.gguf", ("model",))]
    now = known.SECONDS
    assert await known("mine") == [ServedModel("mine")]
    assert [model.name for model in await known("/a/model.gguf")] == ["mine", "/a/model.gguf"]


async def test_a_file_that_is_the_default_may_be_named_while_another_model_is_in_use(home):
    file = ServedModel("/a/model.gguf", ("model",))
    assert await KnownModels("/a/model.gguf")("other") == [file, ServedModel("other")]
    assert await KnownModels("/a/model.gguf")("/a/model.gguf") == [file]
    assert await KnownModels("a name that is not there")("other") == [ServedModel("other")]


@pytest.fixture
async def host(home):
    host = ModelHost(
        model_opener(ServiceSettings(context_tokens=512)), KnownModels(), default="absent", idle_seconds=0
    )
    yield host
    await host.close()


async def test_a_real_engine_by_its_path(host, tiny_model):
    name = str(tiny_model("qwen2"))
    await host.load(name, threads=1)
    status = await host.status()
    assert (status.state, status.threads, status.context_tokens) == ("ready", 1, 512)
    ids = await host.tokenize("def the<|im_end|>")
    assert await host.detokenize(ids) == "def the<|im_end|>"
    special = await host.tokenize("def the<|im_end|>", special=True)
    assert len(special) < len(ids)
    assert await host.detokenize(special) == "def the"
    chat = ChatRequest((ChatMessage("user", "hi"),))
    assert await host.count_tokens(chat) > 2
    for bad in (-1, 10**9):
        with pytest.raises(RequestError, match="Token ids are from 0"):
            await host.detokenize([bad])


async def test_the_settings_reach_the_engine(home, tiny_model, monkeypatch, tmp_path):
    rooms = []
    monkeypatch.setattr(in_process, "open_disk_tier", lambda path, pages, disk: rooms.append(disk))
    cache = CacheSettings(disk_gib=0.5, folder=str(tmp_path / "kv"))
    settings = ServiceSettings(context_tokens=2048, max_requests=1, cache=cache)
    host = ModelHost(model_opener(settings), KnownModels(), default=str(tiny_model("qwen2")), idle_seconds=0)
    await host.load()
    assert rooms == [DiskRoom(1 << 29, tmp_path / "kv")]
    endless = CompletionRequest(
        (5,), max_tokens=2000, constraint=Constraint(ConstraintKind.REGEX, "a{2000,}")
    )
    async with aclosing(host.complete(endless)) as running:
        await anext(running)
        with pytest.raises(EngineBusy) as caught:
            await anext(host.complete(endless))
        assert caught.value.retry_after >= 1
    await host.close()


async def test_closing_ends_the_check_of_a_file(monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def resolve(name, *, report):
        begun.set()
        try:
            while True:
                report.progress("checking", 1, 2)
        finally:
            ended.set()

    monkeypatch.setattr(models, "resolve", resolve)
    host = ModelHost(model_opener(ServiceSettings()), KnownModels(), default="m", idle_seconds=0)
    loading = asyncio.create_task(host.load())
    assert await asyncio.to_thread(begun.wait, 30)
    await host.close()
    assert await asyncio.to_thread(ended.wait, 30)
    with pytest.raises(EngineUnavailable, match="shutting down"):
        await loading


async def test_a_name_that_is_not_there_is_told_by_the_catalogue(host):
    with pytest.raises(ModelFileError, match="'absent'"):
        await host.load()


async def test_a_damaged_file_is_told(host, tmp_path):
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelFileError, match=r"bad\.gguf"):
        await host.load(str(path))
    assert (await host.status()).state == "failed"


@pytest.mark.oracle
@pytest.mark.usefixtures("llama_cpp_package")
async def test_an_embedding_model_and_one_that_writes_take_turns(host, tiny_model, tiny_encoder):
    writer, encoder = str(tiny_model("qwen2")), str(tiny_encoder(pooling=1))
    made = await host.embed(["the reader", "a"], encoder)
    assert (await host.status()).kernels == "llama.cpp"
    assert [vector.shape for vector in made.vectors] == [(64,)] * 2
    assert [vector.shape for vector in (await host.embed(["a"], writer)).vectors] == [(256,)]
    again = await host.embed(["the reader", "a"], encoder)
    assert np.array_equal(again.vectors, made.vectors)
    with pytest.raises(RequestError, match="writes no text"):
        await host.count_tokens(ChatRequest((ChatMessage("user", "hi"),)), encoder)
