"""The fixture `fake_remote`: a scripted server that speaks OpenAI's API, on a real port.

A plugin, enabled once for all tests by `pytest_plugins` in tests/conftest.py.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn

from engine.backends.openai.remote import Remote
from engine.backends.openai.settings import RemoteSettings

SPECIALS = {
    spelling: 5000 + index
    for index, spelling in enumerate(
        (
            "<|fim_prefix|>",
            "<|fim_suffix|>",
            "<|fim_middle|>",
            "<|repo_name|>",
            "<|file_sep|>",
            "<|endoftext|>",
            "<|im_start|>",
            "<|im_end|>",
        )
    )
}
BOS = 4999


def chunk(**choice: Any) -> dict[str, Any]:
    """A piece of a chat or completion, with one choice."""
    return {"id": "x", "object": "chunk", "choices": [{"index": 0, **choice}]}


def usage(prompt: int, generated: int, cached: int = 0) -> dict[str, Any]:
    """The last piece, with token counts."""
    details = {"cached_tokens": cached}
    counts = {"prompt_tokens": prompt, "completion_tokens": generated, "prompt_tokens_details": details}
    return {"choices": [], "usage": counts}


@dataclass
class Reply:
    """An answer.

    pieces: of the body; an asyncio.Event is waited for, an exception breaks the connection.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[bytes | asyncio.Event | Exception] = field(default_factory=list)


def stream(*items: Any, done: bool = True) -> Reply:
    """A stream of events: values as JSON, bytes as they are."""
    pieces = [
        item
        if isinstance(item, bytes | asyncio.Event | Exception)
        else b"data: " + json.dumps(item).encode() + b"\n\n"
        for item in items
    ]
    return Reply(
        200, {"content-type": "text/event-stream"}, [*pieces, *([b"data: [DONE]\n\n"] if done else [])]
    )


def value(body: Any, status: int = 200, **headers: str) -> Reply:
    """A whole JSON answer."""
    names = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(status, {"content-type": "application/json", **names}, [json.dumps(body).encode()])


@dataclass
class Asked:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class FakeRemote:
    """The server. Each path answers by its script, whose last reply is repeated.

    left: set when a client has gone before its answer ended.
    """

    chunk = staticmethod(chunk)
    usage = staticmethod(usage)
    stream = staticmethod(stream)
    value = staticmethod(value)
    SPECIALS = SPECIALS
    BOS = BOS

    def __init__(self) -> None:
        self.requests: list[Asked] = []
        self.left = asyncio.Event()
        self.begun = asyncio.Event()
        self.bos = False
        self.port = 0
        self._scripts: dict[str, list[Reply | Callable[[Any], Reply]]] = {}
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None
        self.on("/v1/models", value({"data": [{"id": "big", "max_model_len": 4096}]}))
        self.on("/tokenize", self._tokenized)
        self.on("/detokenize", lambda body: value({"prompt": "".join(map(chr, body["tokens"]))}))
        text = (chunk(text="one "), chunk(text="two", finish_reason="stop"), usage(7, 3, cached=4))
        self.on("/v1/completions", stream(*text))
        talk = (
            chunk(delta={"role": "assistant", "content": ""}),
            chunk(delta={"content": "Hel"}),
            chunk(delta={"content": "lo"}, finish_reason=None),
            chunk(delta={}, finish_reason="stop"),
            usage(7, 3, cached=4),
        )
        self.on("/v1/chat/completions", stream(*talk))

    def on(self, path: str, *replies: Reply | Callable[[Any], Reply]) -> None:
        """What a path answers from now on."""
        self._scripts[path] = list(replies)

    def asked(self, path: str) -> list[Asked]:
        """The requests for a path."""
        return [request for request in self.requests if request.path == path]

    @property
    def body(self) -> Any:
        """The body of the last request that generates."""
        return [one for one in self.requests if "completions" in one.path][-1].body

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, **options: Any) -> None:
        """Listen, on the same port as before. options: of uvicorn, for TLS."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen()
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(self, http="h11", ws="none", lifespan="off", log_config=None, **options)
        self._server = uvicorn.Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))

    async def stop(self) -> None:
        """Go away at once, as a killed server does: every connection is cut."""
        server, task = self._server, self._task
        self._server = self._task = None
        if server is None or task is None:
            return
        server.should_exit = server.force_exit = True
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        await task

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode(): text.decode() for name, text in scope["headers"]}
        path = scope["path"]
        asked = Asked(scope["method"], path, headers, json.loads(body) if body else None)
        self.requests.append(asked)
        script = self._scripts.get(path, [value({"detail": "Not Found"}, 404)])
        reply = script.pop(0) if len(script) > 1 else script[0]
        reply = reply(asked.body) if callable(reply) else reply
        playing = asyncio.create_task(_play(reply, send, self.begun))
        leaving = asyncio.create_task(_gone(receive))
        await asyncio.wait({playing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            self.left.set()
        for task in (playing, leaving):
            task.cancel()
        await asyncio.wait({playing, leaving})
        if not playing.cancelled() and (error := playing.exception()) is not None:
            raise error

    def _tokenized(self, body: Any) -> Reply:
        """Each special spelling is one token, every other character too."""
        if "messages" in body:
            return value({"tokens": list(range(11)), "count": 11, "max_model_len": 4096})
        text, ids = body["prompt"], [BOS] if body["add_special_tokens"] and self.bos else []
        while text:
            special = next((one for one in SPECIALS if text.startswith(one)), None)
            ids.append(SPECIALS[special] if special else ord(text[0]))
            text = text[len(special or " ") :]
        return value({"tokens": ids, "count": len(ids), "max_model_len": 4096})


async def _play(reply: Reply, send: Callable[[Any], Awaitable[None]], begun: asyncio.Event) -> None:
    headers = [(name.encode(), text.encode()) for name, text in reply.headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    for piece in reply.pieces:
        if isinstance(piece, asyncio.Event):
            begun.set()
            await piece.wait()
        elif isinstance(piece, Exception):
            raise piece
        else:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Pauses:
    """Stands in for sleeping: remembers how long, and goes on at once while `go` is set."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.go = asyncio.Event()
        self.go.set()
        self.waiting = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.waiting.set()
        await self.go.wait()
        await asyncio.sleep(0)


@pytest.fixture
async def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
async def fake_remote() -> AsyncIterator[FakeRemote]:
    """A running server; see `FakeRemote`."""
    fake = FakeRemote()
    await fake.start()
    yield fake
    with suppress(asyncio.CancelledError):
        await fake.stop()


@pytest.fixture
async def make_remote(fake_remote: FakeRemote, pauses: Pauses) -> AsyncIterator[Callable[..., Remote]]:
    """make_remote(**settings): a Remote of that server, whose model "big" is called "near" here."""
    made: list[Remote] = []

    def make(**given: Any) -> Remote:
        settings = {
            "name": "team",
            "url": fake_remote.url,
            "models": {"near": {"name": "big", "fim": "qwen-coder"}},
            **given,
        }
        made.append(Remote(RemoteSettings.model_validate(settings), pause=pauses))
        return made[-1]

    yield make
    pauses.go.set()
    for remote in made:
        await remote.close()
