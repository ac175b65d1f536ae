"""Questions, and how they are put to a daemon: by Hearth's own client, or over HTTP as other tools do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import httpx2

from bench.soak.answers import EVENTS, Answer, of_delta, of_json
from engine.client.http import NotListening
from engine.client.link import DaemonLink
from engine.client.remote import RemoteEngine
from engine.errors import EngineBusy, EngineUnavailable, HearthError
from engine.types import ChatDelta, ChatMessage, ChatRequest, CompletionRequest, InfillRequest, ToolCall

REPLAY = "replay"
"""Two turns of a chat: in the second the client sends back the tool calls of the first."""

SILENCE_SECONDS = 120.0
"""An answer whose next piece takes longer counts as hung."""


@dataclass(frozen=True, eq=False, slots=True)
class Question:
    """kind: for the table. route: a path, the name of a method of `RemoteEngine`, or REPLAY.

    body: JSON for a path (None asks by GET), a request of `engine.types` for a method.
    """

    kind: str
    route: str
    body: dict[str, Any] | InfillRequest | CompletionRequest | ChatRequest | None


@dataclass(frozen=True, slots=True)
class Cut:
    """When the client goes away: after so many pieces, or so many seconds, whichever comes first."""

    pieces: int
    seconds: float


class Lost(Exception):
    """The daemon went away in the middle."""


class Fault(Exception):
    """An answer that should not be."""


class Client:
    """One program that uses the daemon; several at once.

    link: how it finds and starts the daemon. model: what its requests name.
    """

    def __init__(self, link: DaemonLink, model: str) -> None:
        self._link = link
        self._model = model
        self.engine = RemoteEngine(link, model)
        self._http = httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(uds=str(link.socket)),
            base_url="http://localhost",
            timeout=SILENCE_SECONDS,
        )
        self.refused = 0

    async def close(self) -> None:
        await self.engine.close()
        await self._http.aclose()

    async def ask(self, question: Question, cut: Cut | None = None) -> tuple[Answer, str]:
        """The answer, or the part that had come when the client went away; and how it was lost, if it was.

        A full daemon is asked again when it says so. Raises Fault, TimeoutError when it hangs.
        """
        while True:
            answer = Answer()
            try:
                async with asyncio.timeout(cut.seconds if cut is not None else None) as patience:
                    pieces = 0
                    async with aclosing(self._pieces(question)) as stream:
                        async for piece in stream:
                            answer += piece
                            pieces += 1
                            if cut is not None and pieces >= cut.pieces:
                                break
                return answer, ""
            except TimeoutError:
                if not patience.expired():
                    raise
                return answer, ""
            except NotListening:
                try:
                    await self._link.ensure()  # as our own client does by itself
                except EngineUnavailable as error:
                    return answer, str(error)
            except EngineBusy as busy:
                self.refused += 1
                await asyncio.sleep(busy.retry_after)
            except (Lost, EngineUnavailable) as error:
                return answer, str(error) or type(error).__name__

    async def tokenize(self, text: str) -> list[int]:
        """Token ids of a text."""
        response = await self._http.post("/tokenize", json={"content": text})
        ids: list[int] = response.json()["tokens"]
        return ids

    async def _pieces(self, question: Question) -> AsyncGenerator[Answer, None]:
        own = question.body is not None and not isinstance(question.body, dict)
        source = self._own(question) if own else self._other(question)
        async with aclosing(source) as stream:
            while True:
                async with asyncio.timeout(SILENCE_SECONDS):
                    try:
                        piece = await anext(stream)
                    except StopAsyncIteration:
                        return
                yield piece

    async def _own(self, question: Question) -> AsyncGenerator[Answer, None]:
        try:
            if isinstance(question.body, InfillRequest) and question.route == "warm":
                await self.engine.warm(question.body)
                yield Answer(end="warm")
                return
            if isinstance(question.body, ChatRequest) and question.route == REPLAY:
                source = self._replay(question.body)
            else:
                source = getattr(self.engine, question.route)(question.body)
            async with aclosing(source) as deltas:
                async for delta in deltas:
                    yield of_delta(delta)
        except (EngineUnavailable, EngineBusy):
            raise
        except HearthError as error:
            yield Answer(end=f"{error.code}: {error}")

    async def _replay(self, first: ChatRequest) -> AsyncGenerator[ChatDelta, None]:
        calls: dict[int, ToolCall] = {}
        content = ""
        async with aclosing(self.engine.chat(first)) as deltas:
            async for delta in deltas:
                content += delta.text
                for piece in delta.tool_calls:
                    call = calls.get(piece.index, ToolCall(piece.id, piece.name, ""))
                    calls[piece.index] = replace(call, arguments=call.arguments + piece.arguments)
                yield delta
        said = ChatMessage("assistant", content, tool_calls=tuple(calls.values()))
        results = [ChatMessage("tool", "None found.", tool_call_id=call.id) for call in calls.values()]
        messages = (*first.messages, said, *results)
        async with aclosing(self.engine.chat(replace(first, messages=messages))) as deltas:
            async for delta in deltas:
                yield delta

    async def _other(self, question: Question) -> AsyncGenerator[Answer, None]:
        body = question.body
        method = "POST" if body is not None else "GET"
        streamed = isinstance(body, dict) and body.get("stream") is True
        try:
            async with self._http.stream(method, question.route, json=body) as response:
                if response.status_code == 429:
                    raise EngineBusy("", retry_after=float(response.headers["retry-after"]))
                if response.status_code == 503:
                    raise Fault(f"503 from {question.route}: {(await response.aread())!r}")
                if response.status_code != 200 or not streamed:
                    answer = of_json(json.loads(await response.aread()))
                    yield Answer(end=f"{response.status_code} {answer.end}")
                    return
                async for line in response.aiter_lines():
                    if line.startswith("data: ") and line != "data: [DONE]":
                        yield _read(question, json.loads(line.removeprefix("data: ")))
        except httpx2.ConnectError:
            raise NotListening from None
        except httpx2.TimeoutException:
            raise TimeoutError from None
        except httpx2.TransportError as error:
            raise Lost(f"{type(error).__name__}: {error}") from None


def _read(question: Question, event: dict[str, Any]) -> Answer:
    if "error" in event or event.get("type") in ("error", "response.failed"):
        raise Fault(f"an error in a stream of {question.route}: {event}")
    return EVENTS[question.route](event)
