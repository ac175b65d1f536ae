"""Clients that misbehave on a bare connection, or leave."""

import asyncio
import json
import socket

import pytest

from engine.service.http.app import build_app
from engine.service.http.settings import Limits
from engine.types import ChatDelta, TextDelta

CHAT = json.dumps({"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "x"}]}).encode()


def head(path: str, length: int | str, *more: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *more]
    lines.append(f"Content-Length: {length}" if isinstance(length, int) else f"Transfer-Encoding: {length}")
    return "\r\n".join([*lines, "", ""]).encode()


async def answer(reader) -> tuple[int, bytes]:
    """The status and the rest of what comes until the server closes."""
    everything = await reader.read()
    return int(everything.split()[1]), everything


@pytest.fixture
def counted(engine):
    """An application, and a count of the body's bytes that the server has handed to it."""

    class Counted:
        def __init__(self, **limits):
            self.app = build_app(engine, token=None, limits=Limits(**limits))
            self.taken = 0

        async def __call__(self, scope, receive, send):
            async def counting():
                message = await receive()
                self.taken += len(message.get("body", b""))
                return message

            await self.app(scope, counting, send)

    return Counted


async def test_a_declared_long_body_is_refused_unread(counted, serve, engine):
    app = counted(body_bytes=1000)
    async with serve(app) as served:
        reader, writer = await served.raw()
        writer.write(head("/v1/chat/completions", 100_000_000))
        status, text = await answer(reader)
        writer.close()
    assert status == 413
    assert b"1000 bytes" in text
    assert b"connection: close" in text.lower()
    assert app.taken == 0
    assert not engine.requests


@pytest.mark.parametrize("declared", [100_000_000, "chunked"])
async def test_a_hundred_megabytes_are_not_read(counted, serve, declared):
    app = counted(body_bytes=1 << 20)
    piece = b"x" * 65536
    async with serve(app) as served:
        _, writer = await served.raw()
        writer.write(head("/v1/chat/completions", declared))
        sent = 0
        try:
            for _ in range(100_000_000 // len(piece)):
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if declared == "chunked" else piece)
                await writer.drain()
                sent += len(piece)
        except ConnectionError:
            pass
        writer.close()
    assert app.taken <= (1 << 20) + (1 << 18)  # the limit, and what one read brings beyond it
    assert sent < 50_000_000  # the connection was closed long before all was taken


async def test_a_chunked_body_within_the_limit_is_taken(counted, serve):
    app = counted(body_bytes=1000)
    body = b'{"content": "hi"}'
    async with serve(app) as served:
        reader, writer = await served.raw()
        writer.write(head("/tokenize", "chunked", "Connection: close"))
        writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        status, text = await answer(reader)
        writer.close()
    assert status == 200
    assert b"[104,105]" in text


async def test_a_body_that_trickles_is_cut_off(counted, serve, engine):
    """The whole body has one deadline, so that a byte now and then does not extend it."""
    async with serve(counted(body_seconds=0.2)) as served:
        reader, writer = await served.raw()
        writer.write(head("/v1/chat/completions", len(CHAT)))
        # Its head and body may come apart; whatever is written after them resets the connection.
        answering = asyncio.create_task(reader.readuntil(b"0.2 seconds"))
        trickled = 0
        while not answering.done():
            if trickled < len(CHAT) - 1 and not writer.is_closing():
                writer.write(CHAT[trickled : trickled + 1])
                trickled += 1
            await asyncio.wait({answering}, timeout=0.02)
        text = answering.result()
        writer.close()
    assert text.startswith(b"HTTP/1.1 408 ")
    assert not engine.requests


async def test_a_client_that_leaves_within_its_body_is_forgotten(server, engine):
    _, writer = await server.raw()
    writer.write(head("/v1/chat/completions", len(CHAT)) + CHAT[:10])
    await writer.drain()
    writer.close()
    assert (await server.client().get("/health")).status_code == 200
    assert not engine.requests


@pytest.fixture(params=["tcp", "unix"])
async def either(request, engine, serve, tmp_path):
    """The application on loopback, and on a Unix socket."""
    path = tmp_path / "s" if request.param == "unix" else None
    async with serve(build_app(engine, token=None), path) as served:
        yield served


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/hearth/v1/chat"])
async def test_a_client_that_drops_within_a_stream_ends_it(either, engine, path):
    engine.chats = [ChatDelta("Hel"), asyncio.Event()]
    body = json.loads(CHAT)
    if path == "/v1/messages":
        body["max_tokens"] = 9
    if path == "/v1/responses":
        body["input"] = body.pop("messages")
    if path.startswith("/hearth"):
        body = {"messages": body["messages"]}
    text = json.dumps(body).encode()
    reader, writer = await either.raw()
    writer.write(head(path, len(text)) + text)
    await reader.readuntil(b"Hel")
    assert not engine.closed.is_set()
    writer.transport.abort()
    await engine.closed.wait()
    assert engine.cut_short == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_drops_before_the_first_piece_ends_it(either, engine, stream):
    engine.chats = [asyncio.Event()]
    text = json.dumps({**json.loads(CHAT), "stream": stream}).encode()
    _, writer = await either.raw()
    writer.write(head("/v1/chat/completions", len(text)) + text)
    await engine.started.wait()
    writer.transport.abort()
    await engine.closed.wait()
    assert engine.cut_short == 1


async def test_all_choices_of_a_client_that_drops_are_ended(server, engine):
    engine.texts = [TextDelta("a"), asyncio.Event()]
    text = json.dumps({"model": "tiny", "prompt": ["x", "y"], "n": 2, "stream": True}).encode()
    reader, writer = await server.raw()
    writer.write(head("/v1/completions", len(text)) + text)
    await reader.readuntil(b'"index":3')
    writer.transport.abort()
    while engine.cut_short < 4:
        engine.closed.clear()
        await engine.closed.wait()


async def test_a_half_closed_socket_ends_its_request(server, engine):
    engine.chats = [ChatDelta("Hel"), asyncio.Event()]
    reader, writer = await server.raw()
    writer.write(head("/v1/chat/completions", len(CHAT)) + CHAT)
    await reader.readuntil(b"Hel")
    writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
    await engine.closed.wait()
    assert engine.cut_short == 1
    writer.close()


async def test_a_websocket_is_refused(counted):
    sent = []

    async def send(message):
        sent.append(message)

    await counted()({"type": "websocket", "path": "/v1/responses"}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_pieces_are_sent_one_by_one(either, engine):
    """The first piece arrives while the second has not been made."""
    go = asyncio.Event()
    engine.chats = [ChatDelta("first"), go, *engine.chats]
    reader, writer = await either.raw()
    writer.write(head("/v1/chat/completions", len(CHAT)) + CHAT)
    await reader.readuntil(b'"first"')
    go.set()
    await reader.readuntil(b"data: [DONE]\n\n")
    writer.close()


async def trickle(reader, writer, text) -> bytes:
    """Send a byte now and then until the server closes, the last one never; what it answered."""
    answering = asyncio.create_task(reader.read())
    sent = 0
    while not answering.done():
        if sent < len(text) - 1 and not writer.is_closing():
            writer.write(text[sent : sent + 1])
            sent += 1
        await asyncio.wait({answering}, timeout=0.02)
    writer.close()
    return answering.result()


@pytest.mark.parametrize("text", [b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"G"])
async def test_a_head_that_trickles_is_cut_off(engine, serve, text):
    async with serve(build_app(engine, token=None), head_seconds=0.2) as served:
        reader, writer = await served.raw()
        assert await trickle(reader, writer, text) == b""


async def test_the_second_head_of_a_connection_is_cut_off_too(engine, serve):
    good = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with serve(build_app(engine, token=None), head_seconds=0.2) as served:
        reader, writer = await served.raw()
        writer.write(good)
        await reader.readuntil(b'{"status":"ok"}')
        assert await trickle(reader, writer, good) == b""


async def test_a_long_answer_is_not_cut_off_by_the_deadline_of_heads(engine, serve):
    """The deadline has passed many times over when the stream goes on."""
    go = asyncio.Event()
    engine.chats = [ChatDelta("Hel"), go, *engine.chats]
    async with serve(build_app(engine, token=None), head_seconds=0.2) as served:
        reader, writer = await served.raw()
        writer.write(head("/v1/chat/completions", len(CHAT)) + CHAT)
        await reader.readuntil(b"Hel")
        idle_reader, idle_writer = await served.raw()
        assert await idle_reader.read() == b""  # closed by its own deadline, which is as long
        go.set()
        await reader.readuntil(b"data: [DONE]\n\n")
        writer.close()
        idle_writer.close()
