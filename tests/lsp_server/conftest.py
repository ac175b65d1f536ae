"""A server in memory, a scripted policy and engine for it, and a raw client for servers over real stdio."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.errors import HearthError
from engine.types import EngineStatus
from lsp_server.inline_completion.policy import Answer, Question, Suggestion
from lsp_server.server import HearthServer

ROOT = Path(__file__).parents[2]
FAKE_SERVER = Path(__file__).parent / "e2e" / "fake_server.py"


class FakeEngine:
    """An engine with nothing inside; the scripted policy does not ask it anything."""

    def __init__(self) -> None:
        self.closed = False

    async def status(self) -> EngineStatus:
        return EngineStatus("ready", model="fake", kernels="scalar", threads=2)

    async def close(self) -> None:
        self.closed = True


class FakePolicy:
    """Answers with `insert` at the cursor; `gate` holds answers back, `error` replaces them."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.insert: list[str] = ["ghost"]
        self.replace_before = 0  # how many characters before the cursor the suggestion replaces
        self.gate: asyncio.Event | None = None
        self.error: Exception | None = None
        self.questions: list[Question] = []
        self.warmed: list[Question] = []
        self.stopped: list[Question] = []
        self.calls: list[tuple[Any, ...]] = []
        self.started = asyncio.Event()

    async def answer(self, question: Question) -> Answer:
        self.questions.append(question)
        self.started.set()
        try:
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.stopped.append(question)
            raise
        if self.error is not None:
            raise self.error
        start = question.offset - self.replace_before
        suggestions = tuple(
            Suggestion(f"id{number}", text, start, question.offset) for number, text in enumerate(self.insert)
        )
        return Answer(suggestions, "the fake said so" if suggestions else "nothing fits", {"promptTokens": 7})

    def follow(self, question: Question) -> bool:
        return False

    async def warm(self, question: Question) -> None:
        self.warmed.append(question)
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.stopped.append(question)
            raise

    def shown(self, suggestion_id: str) -> None:
        self.calls.append(("shown", suggestion_id))

    def accepted(self, suggestion_id: str) -> None:
        self.calls.append(("accepted", suggestion_id))

    def partially_accepted(self, suggestion_id: str, length: int) -> None:
        self.calls.append(("partially_accepted", suggestion_id, length))

    def forget(self, uri: str) -> None:
        self.calls.append(("forget", uri))


class _Writer:
    def __init__(self, sink: Callable[[dict[str, Any]], None]) -> None:
        self._sink = sink

    def write(self, data: bytes) -> None:
        header, body = data.split(b"\r\n\r\n", 1)
        assert header == b"Content-Length: %d" % len(body)
        self._sink(json.loads(body))

    def close(self) -> None: ...


class Session:
    """A server in memory. `send` is synchronous: what the server does within it happens before it returns."""

    def __init__(
        self, factory: Callable[..., Any] | None = None, policy_factory: Callable[..., Any] | None = None
    ) -> None:
        self.policy: FakePolicy | None = None
        self.engines: list[FakeEngine] = []
        self.sent: list[dict[str, Any]] = []
        self._arrived = asyncio.Event()
        self._next_id = 0
        self.server = HearthServer(factory or self._engine, policy_factory or self._policy)
        self.server.protocol.set_writer(_Writer(self._receive))

    async def _engine(self, settings: Any) -> FakeEngine:
        self.engines.append(FakeEngine())
        return self.engines[-1]

    def _policy(self, engine: Any) -> FakePolicy:
        self.policy = FakePolicy(engine)
        return self.policy

    def _receive(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        self._arrived.set()

    def send(self, message: dict[str, Any] | bytes) -> None:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.server.protocol.handle_body(body)

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Any = None) -> int:
        """Send a request; returns its id."""
        self._next_id += 1
        self.send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
        return self._next_id

    def reply(self, message: dict[str, Any], result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def responses(self, message_id: Any) -> list[dict[str, Any]]:
        return [m for m in self.sent if "method" not in m and m.get("id") == message_id]

    def notices(self, method: str) -> list[dict[str, Any]]:
        return [m["params"] for m in self.sent if m.get("method") == method]

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Give the loop turns until the condition holds; returns its value."""
        for _ in range(1000):
            if value := condition():
                return value
            await asyncio.sleep(0)
        raise AssertionError("it never happened")

    async def response(self, message_id: Any) -> dict[str, Any]:
        await self.until(lambda: self.responses(message_id))
        return self.responses(message_id)[0]

    async def result(self, method: str, params: Any = None) -> Any:
        answer = await self.response(self.ask(method, params))
        assert "error" not in answer, answer
        return answer["result"]

    async def error(self, method: str, params: Any = None) -> dict[str, Any]:
        answer = await self.response(self.ask(method, params))
        assert "result" not in answer, answer
        return answer["error"]

    async def initialize(self, capabilities: Any = None, options: Any = None, **extra: Any) -> dict[str, Any]:
        return await self.result(
            "initialize",
            {
                "processId": None,
                "rootUri": "file:///w",
                "capabilities": capabilities or {},
                "initializationOptions": options,
                **extra,
            },
        )

    async def start(self, capabilities: Any = None, options: Any = None) -> FakePolicy:
        """initialize, initialized, and the model loaded."""
        await self.initialize(capabilities, options)
        self.notify("initialized", {})
        return await self.until(lambda: self.server.engine.policy)

    def open(self, text: str, uri: str = "file:///w/a.py", language: str = "python", version: int = 1) -> str:
        self.notify(
            "textDocument/didOpen",
            {"textDocument": {"uri": uri, "languageId": language, "version": version, "text": text}},
        )
        return uri

    def insert(self, uri: str, version: int, line: int, character: int, text: str, *, taken: int = 0) -> None:
        """Put text in a line; `taken` characters before that place go first."""
        start = {"line": line, "character": character - taken}
        end = {"line": line, "character": character}
        self.notify(
            "textDocument/didChange",
            {
                "textDocument": {"uri": uri, "version": version},
                "contentChanges": [{"range": {"start": start, "end": end}, "text": text}],
            },
        )

    @staticmethod
    def completion(
        uri: str, line: int, character: int, *, invoked: bool = False, **extra: Any
    ) -> dict[str, Any]:
        return {
            "textDocument": {"uri": uri},
            "position": {"line": line, "character": character},
            "context": {"triggerKind": 1 if invoked else 2},
            **extra,
        }

    def complete(self, uri: str, line: int, character: int, **extra: Any) -> int:
        return self.ask("textDocument/inlineCompletion", self.completion(uri, line, character, **extra))

    async def items(self, uri: str, line: int, character: int, **extra: Any) -> Any:
        """The items of a completion, or None for `null`."""
        answer = await self.response(self.complete(uri, line, character, **extra))
        assert "error" not in answer, answer
        return None if answer["result"] is None else answer["result"]["items"]


@pytest.fixture
def failure() -> type[HearthError]:
    return HearthError


@pytest.fixture(scope="session")
def session_type() -> type[Session]:
    return Session


@pytest.fixture
async def make_session() -> AsyncIterator[Callable[..., Session]]:
    sessions: list[Session] = []

    def make(factory: Callable[..., Any] | None = None) -> Session:
        sessions.append(Session(factory))
        return sessions[-1]

    yield make
    for session in sessions:
        await session.server.close()


@pytest.fixture
def session(make_session: Callable[..., Session]) -> Session:
    return make_session()


@dataclass
class RawClient:
    """Writes bytes to a server process and reads whole messages back; knows nothing of pygls."""

    process: asyncio.subprocess.Process
    log_dir: Path
    received: list[dict[str, Any]] = field(default_factory=list)
    _next_id: int = 0

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    async def send(self, message: Any) -> None:
        body = json.dumps(message).encode()
        await self.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def notify(self, method: str, params: Any = None) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        header = await self.process.stdout.readuntil(b"\r\n\r\n")
        match = re.fullmatch(rb"Content-Length: (\d+)\r\n\r\n", header)
        assert match, header
        message: dict[str, Any] = json.loads(await self.process.stdout.readexactly(int(match.group(1))))
        self.received.append(message)
        return message

    async def read_until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            message = await self.read()
            if condition(message):
                return message

    async def request(self, method: str, params: Any = None) -> dict[str, Any]:
        self._next_id += 1
        message_id = self._next_id
        await self.send({"jsonrpc": "2.0", "id": message_id, "method": method, "params": params})
        return await self.read_until(lambda m: "method" not in m and m.get("id") == message_id)

    async def initialize(self, capabilities: Any = None, process_id: int | None = None) -> None:
        params = {"processId": process_id, "rootUri": None, "capabilities": capabilities or {}}
        assert "result" in await self.request("initialize", params)
        await self.notify("initialized", {})
        await self.read_until(lambda m: m.get("method") == "didChangeStatus" and not m["params"]["busy"])

    async def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self.process.stdin.wait_closed()

    async def exit_code(self) -> int:
        return await asyncio.wait_for(self.process.wait(), 60)

    def log(self) -> str:
        return "".join(file.read_text(encoding="utf-8") for file in self.log_dir.glob("*.log*"))


@pytest.fixture
def spawn(tmp_path: Path) -> Callable[..., Any]:
    """An async context manager that starts the fake server over stdio, and ends it whatever happens."""

    @asynccontextmanager
    async def start(level: str = "debug") -> AsyncIterator[RawClient]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(FAKE_SERVER),
            str(tmp_path),
            level,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=1 << 28,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        try:
            yield RawClient(process, tmp_path)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    return start
