"""The client against the real daemon process around a scripted engine."""

import asyncio
import json
import os
import signal
import sys
from contextlib import aclosing

import pytest

from engine.client import EngineClient
from engine.client import link as link_module
from engine.client.link import DaemonLink
from engine.client.remote import RemoteEngine
from engine.client.start import StartLimit
from engine.errors import EngineUnavailable, ModelFileError, RequestError
from engine.service.protocol import PROTOCOL
from engine.types import (
    ChatDelta,
    ChatMessage,
    ChatRequest,
    CompletionRequest,
    ContextFile,
    FinishReason,
    InfillRequest,
    TextDelta,
    Tool,
)

PATIENCE = 60


def make_engine(daemon_home, model="m", **options):
    return RemoteEngine(DaemonLink(("--model", model), command=daemon_home.stand_in, **options), model)


async def collect(stream):
    async with aclosing(stream), asyncio.timeout(PATIENCE):
        return [delta async for delta in stream]


async def text(engine, prefix):
    return "".join([delta.text for delta in await collect(engine.infill(InfillRequest(prefix, "")))])


async def test_the_first_request_starts_the_daemon_and_others_share_it(daemon_home):
    engine: EngineClient = make_engine(daemon_home)
    assert await text(engine, "a b") == "ab"
    pids = daemon_home.pids()
    others = [make_engine(daemon_home) for _ in range(4)]
    assert await asyncio.gather(*(text(other, "x y") for other in others)) == ["xy"] * 4
    assert daemon_home.pids() == pids
    assert len(pids) == 1
    await engine.close()
    with pytest.raises(EngineUnavailable, match="closed"):
        await text(engine, "a")
    assert daemon_home.pids() == pids


async def test_many_clients_that_find_none_start_one(daemon_home):
    engines = [make_engine(daemon_home) for _ in range(4)]
    await asyncio.gather(*(engine.load() for engine in engines))
    assert daemon_home.only_pid()


async def test_every_kind_of_request_comes_through(daemon_home):
    engine = make_engine(daemon_home)
    await engine.load()
    context = (ContextFile("a/ü.py", "# €\n"),)
    request = InfillRequest("über 'x'", "\n", path="ü", context=context, stop=("\n",), session="s")
    deltas = await collect(engine.infill(request))
    assert [delta.text for delta in deltas] == ["über", "'x'", ""]
    assert all(isinstance(delta, TextDelta) for delta in deltas)
    assert deltas[-1].finish is FinishReason.STOP
    (completed,) = await collect(engine.complete(CompletionRequest((1, 2, 3))))
    assert completed == TextDelta("(1, 2, 3)", finish=FinishReason.LENGTH)
    chat = ChatRequest((ChatMessage("user", "hi 😀"),), tools=(Tool("t", parameters={"type": "object"}),))
    assert await collect(engine.chat(chat)) == [
        ChatDelta(reasoning="hm"),
        ChatDelta("hi 😀", finish=FinishReason.STOP),
    ]
    await engine.warm(request)
    status = await engine.status()
    assert (status.state, status.model, status.context_tokens) == ("ready", "m", 99)


async def test_errors_keep_their_class_and_words(daemon_home):
    engine = make_engine(daemon_home)
    with pytest.raises(RequestError) as caught:
        await text(engine, "#fail")
    assert (caught.value.what, caught.value.meaning, caught.value.action) == ("Refused: #fail.", "m", "a")
    with pytest.raises(EngineUnavailable, match="does not load"):
        await make_engine(daemon_home, "bad").load()
    with pytest.raises(ModelFileError, match="'absent'"):
        await make_engine(daemon_home, "absent").load()


async def test_closing_a_stream_closes_the_connection(daemon_home):
    engine = make_engine(daemon_home)
    stream = engine.infill(InfillRequest("#wait", ""))
    assert (await anext(stream)).text == "waiting"
    assert json.loads(await daemon_home.ask("GET", "/hearth/control/state"))["requests"]["running"] == 1
    await stream.aclose()
    # A request for another model is granted only once that one has let go.
    async with asyncio.timeout(PATIENCE):
        await make_engine(daemon_home, "other").load()


async def test_a_daemon_killed_under_a_request_and_the_next_one_works(daemon_home):
    engine = make_engine(daemon_home)
    stream = engine.infill(InfillRequest("#wait", ""))
    await anext(stream)
    (pid,) = daemon_home.pids()
    daemon_home.kill(pid)
    with pytest.raises(EngineUnavailable) as caught:
        await anext(stream)
    assert "ended before it had answered" in caught.value.what
    assert await text(engine, "a b") == "ab"
    assert daemon_home.pids() != [pid]


async def test_a_daemon_killed_under_a_load_is_started_again_by_itself(daemon_home):
    engine = make_engine(daemon_home, "slow")
    loading = asyncio.create_task(engine.load())
    await make_engine(daemon_home, "slow").status()
    before = daemon_home.pids()
    daemon_home.kill(before[0])
    status = await make_engine(daemon_home, "slow").status()
    assert status.state == "loading"
    assert daemon_home.pids() != before
    assert not loading.done()
    loading.cancel()
    await asyncio.wait({loading})


async def test_a_crash_loop_does_not_spin(daemon_home):
    crashing = (sys.executable, "-c", "import sys, os; os.write(int(sys.argv[-1]), b'{}\\n')")
    link = DaemonLink((), command=crashing, limit=StartLimit(lambda: 0.0))
    engine = RemoteEngine(link, "m")
    told = []
    for _ in range(6):
        with pytest.raises(EngineUnavailable) as caught:
            await text(engine, "a")
        told.append(caught.value.what)
    assert told[:3] == ["The engine ended as soon as it had started."] * 3
    assert all("ended 3 times" in one for one in told[3:])


async def test_an_older_daemon_is_drained_and_replaced(daemon_home, monkeypatch):
    older = daemon_home.start()
    monkeypatch.setattr(link_module, "PROTOCOL", PROTOCOL + 1)
    # What is started here is of the old protocol too, so the client is refused in the end: by another one.
    engine = make_engine(daemon_home)
    with pytest.raises(EngineUnavailable, match="another version"):
        await engine._link.ensure()
    assert await asyncio.to_thread(older.wait) == 0
    (pid,) = daemon_home.pids()
    assert pid != older.pid


async def test_a_newer_daemon_is_left_alone(daemon_home, monkeypatch):
    newer = daemon_home.start()
    for module in (link_module, sys.modules["engine.client.remote"]):
        monkeypatch.setattr(module, "PROTOCOL", PROTOCOL - 1)
    monkeypatch.setattr(
        sys.modules["engine.client.remote"], "_HEADERS", (("hearth-protocol", str(PROTOCOL - 1)),)
    )
    with pytest.raises(EngineUnavailable) as caught:
        await text(make_engine(daemon_home), "a")
    assert "Restart the editor" in caught.value.action
    assert daemon_home.pids() == [newer.pid]


async def test_a_hung_daemon_is_told_and_not_waited_for(daemon_home, monkeypatch):
    daemon = daemon_home.start()
    monkeypatch.setattr(link_module, "ANSWER_SECONDS", 0.01)
    os.kill(daemon.pid, signal.SIGSTOP)
    with pytest.raises(EngineUnavailable, match="does not answer"):
        await make_engine(daemon_home)._link.ensure()
    os.kill(daemon.pid, signal.SIGCONT)


async def test_another_program_on_the_socket_is_told(daemon_home):
    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]")
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(talk, daemon_home.places.socket)
    async with server:
        with pytest.raises(EngineUnavailable, match="not Hearth"):
            await make_engine(daemon_home)._link.ensure()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"rubbish\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{",
        b'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"a": 1}\n',
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\noops",
        b"HTTP/1.1 200 OK\r\n\r\n" + b'{"text": "half a str',
    ],
)
async def test_rubbish_from_the_daemon_becomes_words(daemon_home, answer):
    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(talk, daemon_home.places.socket)
    async with server:
        with pytest.raises(EngineUnavailable):
            await text(make_engine(daemon_home), "a")
        with pytest.raises(EngineUnavailable):
            await make_engine(daemon_home).status()
