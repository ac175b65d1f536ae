"""What an editor does: open a file, put the cursor in a place, ask, and show what comes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import EngineUnavailable
from lsp_server.demo.client import Refused, ServerGone, StdioClient, connect
from lsp_server.demo.holes import Hole

_ANSWER_SECONDS = 120.0
_LOAD_SECONDS = 600.0
_AUTOMATIC = 2  # InlineCompletionTriggerKind: asked by typing, not by a command


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What was offered for a hole.

    ghost: the text shown after the cursor; covered: how much of the text after the cursor it would replace.
    seconds: from the request to the answer. tokens_per_second: of the generation; None when not told.
    """

    ghost: str
    covered: int
    seconds: float
    tokens_per_second: float | None


@dataclass(frozen=True, slots=True)
class Nothing:
    """No suggestion, and why in the server's words ("" when it did not say)."""

    seconds: float
    reason: str


class Session:
    """One editor session with one server."""

    def __init__(self, client: StdioClient, notices: asyncio.Queue[tuple[str, Any]]) -> None:
        self._client = client
        self._notices = notices
        self._versions: dict[Path, int] = {}

    async def start(self, folder: Path) -> None:
        """Greet the server and wait until its model is loaded. Raises HearthError if that fails."""
        async with _limit(_LOAD_SECONDS, "load its model"):
            await self._client.request(
                "initialize",
                {
                    "processId": os.getpid(),
                    "clientInfo": {"name": "hearth demo"},
                    "rootUri": folder.as_uri(),
                    "workspaceFolders": [{"uri": folder.as_uri(), "name": folder.name}],
                    "capabilities": {
                        "general": {"positionEncodings": ["utf-16"]},
                        "textDocument": {"inlineCompletion": {}, "synchronization": {}},
                    },
                },
            )
            await self._client.notify("initialized", {})
            await self._ready()

    async def complete(self, hole: Hole) -> Suggestion | Nothing:
        """Open the file with its hole and ask as an editor does while someone types."""
        uri = hole.path.as_uri()
        await self._show(hole)
        started = time.perf_counter()
        async with _limit(_ANSWER_SECONDS, f"complete {hole.name}"):
            result = await self._client.request(
                "textDocument/inlineCompletion",
                {
                    "textDocument": {"uri": uri},
                    "position": _position(hole.before),
                    "context": {"triggerKind": _AUTOMATIC},
                },
            )
        seconds = time.perf_counter() - started
        explanation = await self._explain(uri)
        items = result.get("items", []) if isinstance(result, Mapping) else result or []
        if not items:
            return Nothing(seconds, str(explanation.get("reason", "")))
        return _suggestion(hole, items[0], seconds, _speed(explanation))

    async def _ready(self) -> None:
        """Loading is told by `didChangeStatus`, the notice that status bars show."""
        while True:
            method, params = await self._notices.get()
            if method == "$/gone":
                await self._client.request("shutdown", None)  # raises what became of the server
            if method != "didChangeStatus":
                continue
            if params.get("kind") == "Error":
                raise EngineUnavailable(params.get("message") or "The server's engine failed.")
            if params.get("kind") == "Normal" and not params.get("busy"):
                return

    async def _show(self, hole: Hole) -> None:
        document: dict[str, object] = {
            "uri": hole.path.as_uri(),
            "version": self._versions.get(hole.path, 0) + 1,
        }
        text = hole.before + hole.after
        if hole.path in self._versions:
            await self._client.notify(
                "textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]}
            )
        else:
            await self._client.notify(
                "textDocument/didOpen",
                {"textDocument": {**document, "languageId": hole.language, "text": text}},
            )
        self._versions[hole.path] = self._versions.get(hole.path, 0) + 1

    async def _explain(self, uri: str) -> Mapping[str, Any]:
        """What became of the request, structured; empty when the server does not say."""
        try:
            answer = await self._client.request(
                "workspace/executeCommand", {"command": "hearth.explain", "arguments": [uri]}
            )
        except Refused:
            return {}
        return (answer or {}).get("data") or {}


@asynccontextmanager
async def open_session(command: Sequence[str], folder: Path) -> AsyncIterator[Session]:
    """A session with a server that is ready; it is shut down on leaving. Raises HearthError."""
    notices: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    async with connect(command, lambda method, params: notices.put_nowait((method, params))) as client:
        session = Session(client, notices)
        await session.start(folder)
        yield session


@asynccontextmanager
async def _limit(seconds: float, work: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise EngineUnavailable(f"The server did not {work} within {seconds:.0f} seconds.") from None


def _units(text: str) -> int:
    """Length in UTF-16 code units, which the protocol counts columns in."""
    return len(text.encode("utf-16-le")) // 2


def _position(before: str) -> dict[str, int]:
    line_start = before.rfind("\n") + 1
    return {"line": before.count("\n"), "character": _units(before[line_start:])}


def _suggestion(hole: Hole, item: Mapping[str, Any], seconds: float, speed: float | None) -> Suggestion:
    """The part of an item's text that would be new after the cursor.

    Raises ServerGone when the item would change text before the cursor, which no editor shows as ghost text.
    """
    cursor = _position(hole.before)
    where = item.get("range") or {"start": cursor, "end": cursor}
    typed_units = cursor["character"] - where["start"]["character"]
    on_line = where["start"]["line"] == where["end"]["line"] == cursor["line"]
    covered_units = where["end"]["character"] - cursor["character"]
    typed = _last_units(hole.before, typed_units)
    text: str = item["insertText"]
    if not on_line or covered_units < 0 or typed is None or not text.startswith(typed):
        raise ServerGone(
            f"The server's suggestion for {hole.name} does not fit the text at the cursor: {dict(item)}"
        )
    covered = len(hole.after.encode("utf-16-le")[: 2 * covered_units].decode("utf-16-le"))
    return Suggestion(text[len(typed) :], covered, seconds, speed)


def _last_units(text: str, units: int) -> str | None:
    if units < 0:
        return None
    encoded = text.encode("utf-16-le")
    return encoded[len(encoded) - 2 * units :].decode("utf-16-le")


def _speed(explanation: Mapping[str, Any]) -> float | None:
    """Tokens per second of the first sample's decoding, from the policy's own record of it."""
    samples = explanation.get("trace", {}).get("samples") or [{}]
    try:
        seconds = samples[0]["elapsed_s"] - samples[0]["first_piece_s"]
        return float((samples[0]["tokens"] - 1) / seconds) if seconds > 0 else None
    except KeyError:
        return None
