"""A scripted engine, and the application over it on a real server."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
import uvicorn

from engine.errors import HearthError, RequestError
from engine.generation.embedding import Embeddings
from engine.service.http.app import build_app
from engine.service.http.heads import heads_within
from engine.service.served import ServedModel
from engine.types import ChatDelta, EngineStatus, FinishReason, TextDelta, Timing, TokenLogprob

TIMING = Timing(
    prompt_tokens=10, cached_tokens=4, queue_s=0.0, prefill_s=0.1, decode_s=0.2, generated_tokens=3
)


class ScriptedEngine:
    """Implements `Served`: every stream plays the script; requests and ends of streams are recorded.

    A script's items are deltas, exceptions to raise, and asyncio.Events to wait for.
    """

    def __init__(self) -> None:
        self.texts: list = [
            TextDelta("one ", timing=TIMING),
            TextDelta("two", tokens=2, finish=FinishReason.STOP, timing=TIMING),
        ]
        self.chats: list = [
            ChatDelta("Hel", tokens=1, timing=TIMING),
            ChatDelta("lo", tokens=1),
            ChatDelta(finish=FinishReason.STOP, timing=TIMING),
        ]
        self.requests: list = []
        self.models_asked: list[str] = []
        self.started = asyncio.Event()
        self.closed = asyncio.Event()
        self.cut_short = 0
        self.state = "ready"
        self.embeddings: Embeddings | HearthError = RequestError("This model makes no embeddings.")

    @property
    def request(self):
        """The last request."""
        return self.requests[-1]

    def infill(self, request, model=""):
        return self._play(self.texts, request, model)

    def complete(self, request, model=""):
        return self._play(self.texts, request, model)

    def chat(self, request, model=""):
        return self._play(self.chats, request, model)

    async def _play(self, script, request, model):
        self.requests.append(request)
        self.models_asked.append(model)
        self.started.set()
        ended = False
        try:
            for item in script:
                if isinstance(item, asyncio.Event):
                    await item.wait()
                elif isinstance(item, Exception):
                    raise item
                else:
                    yield item
            ended = True
        finally:
            self.cut_short += not ended
            self.closed.set()

    async def warm(self, request, model=""):
        self.requests.append(request)
        self.models_asked.append(model)

    async def status(self, model=""):
        return EngineStatus(self.state, "tiny", context_tokens=512, message="secret reason")

    async def models(self):
        return [ServedModel("tiny", ("default",), 7), ServedModel("other/one")]

    async def tokenize(self, text, *, special=False, model=""):
        self.requests.append((text, special))
        return list(text.encode())

    async def detokenize(self, ids, *, model=""):
        return bytes(ids).decode(errors="replace")

    async def count_tokens(self, request, model=""):
        self.requests.append(request)
        return 42

    async def embed(self, texts, model=""):
        self.requests.append(list(texts))
        if isinstance(self.embeddings, HearthError):
            raise self.embeddings
        return self.embeddings


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@dataclass
class Served:
    """A running server: url for TCP, path for a Unix socket; clients closed at the end."""

    url: str
    path: Path | None
    clients: list[httpx2.AsyncClient] = field(default_factory=list)

    def client(self, **options) -> httpx2.AsyncClient:
        if self.path is not None:
            options["transport"] = httpx2.AsyncHTTPTransport(uds=str(self.path))
        made = httpx2.AsyncClient(base_url=self.url, timeout=30, **options)
        self.clients.append(made)
        return made

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A bare connection."""
        if self.path is not None:
            return await asyncio.open_unix_connection(self.path)
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return await asyncio.open_connection(host, int(port))


@asynccontextmanager
async def serving(app, path: Path | None = None, head_seconds: float = 15) -> AsyncIterator[Served]:
    """The application on a real uvicorn, on loopback or on a Unix socket."""
    listener = socket.socket(socket.AF_UNIX if path is not None else socket.AF_INET)
    listener.bind(str(path) if path is not None else ("127.0.0.1", 0))
    listener.listen()  # from now on clients can connect: they wait until the server accepts
    config = uvicorn.Config(
        app, http=heads_within(head_seconds), ws="none", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    url = "http://localhost" if path is not None else f"http://127.0.0.1:{listener.getsockname()[1]}"
    served = Served(url, path)
    try:
        yield served
    finally:
        for client in served.clients:
            await client.aclose()
        server.should_exit = True
        server.force_exit = True
        await task
        with suppress(OSError):
            listener.close()


@pytest.fixture
async def server(engine) -> AsyncIterator[Served]:
    """The application without a token, on loopback."""
    async with serving(build_app(engine, token=None)) as served:
        yield served


@pytest.fixture
def serve() -> Callable:
    """serve(app, path=None): an asynchronous context manager that gives a running server."""
    return serving


@pytest.fixture
async def ask(engine) -> AsyncIterator[Callable]:
    """ask(path, body): POST to the application in process."""
    transport = httpx2.ASGITransport(build_app(engine, token=None))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:

        async def post(path: str, body: object):
            return await client.post(path, json=body)

        yield post


@pytest.fixture
def logprob() -> Callable[..., TokenLogprob]:
    def make(data: bytes, value: float, *top) -> TokenLogprob:
        return TokenLogprob(1, data, value, tuple(top))

    return make
