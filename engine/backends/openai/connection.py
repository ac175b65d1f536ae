"""HTTP to one remote: a pool of connections, tries and probes.

A request goes to the first server of the remote that is worth asking. It is sent again only while nothing of
an answer has come, which costs a remote at most work that nobody sees.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import httpx2

from engine.backends.openai.circuit import Circuit, Health, backoff
from engine.backends.openai.failures import (
    MalformedAnswer,
    Refused,
    Unreachable,
    broke_off,
    malformed,
    told_in_stream,
    unreachable,
    wrong_status,
)
from engine.backends.openai.settings import RemoteSettings
from engine.backends.openai.sse import SseReader
from engine.backends.openai.transport import json_object, lost, open_client, read_body
from engine.errors import EngineBusy, EngineUnavailable, HearthError

log = logging.getLogger(__name__)

MODELS = "/v1/models"
LARGEST_ANSWER = 1 << 26
"""Bytes of a whole answer: at 4 bytes a token with their log probabilities, far more than any."""
_LARGEST_ERROR = 1 << 16
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
_FIRST_PROBE, _LONGEST_PROBE = 1.0, 30.0
_LOOK_SECONDS = 10.0
LONGEST_RETRY_AFTER = 5.0
"""Seconds; when a server asks for more patience than that, who asked decides."""

Piece = TypeVar("Piece")
Pause = Callable[[float], Awaitable[None]]


class _Endpoint:
    """One server of the remote."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.circuit = Circuit()
        self.probing: asyncio.Task[None] | None = None


class _Answer:
    """An answer with status 200 whose body is still to be read.

    begun: whether something of it went on to who asked.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.begun = False


class Connection:
    """Used on one event loop; opens nothing until it is asked.

    pause: waits so many seconds; for tests.

    listed: the models that the remote named last, and their windows in tokens (0: not told); None before.
    recoveries: how often a server came back: what was learnt of its models before may be no longer true.
    """

    def __init__(self, settings: RemoteSettings, *, pause: Pause = asyncio.sleep) -> None:
        self._settings = settings
        self._pause = pause
        self._endpoints = [_Endpoint(url) for url in settings.url]
        self._client: httpx2.AsyncClient | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self.listed: dict[str, int] | None = None
        self.recoveries = 0

    @property
    def health(self) -> Health:
        """Of the best of its servers."""
        known = {endpoint.circuit.health for endpoint in self._endpoints}
        return next(one for one in (Health.UP, Health.REFUSED, Health.UNKNOWN, Health.DOWN) if one in known)

    @property
    def reasons(self) -> dict[str, str]:
        """For each server that does not serve, why; in the order of the settings."""
        return {one.url: one.circuit.reason for one in self._endpoints if one.circuit.reason}

    async def ask(self, method: str, path: str, body: object = None, *, model: str = "") -> Any:
        """The JSON value of a whole answer. model: the remote's name of it, for the words of a failure.

        Raises HearthError.
        """

        async def once(endpoint: _Endpoint) -> AsyncGenerator[Any, None]:
            yield await self._ask_once(endpoint, method, path, body, model)

        async with aclosing(self._tried(once)) as answers:
            return await anext(answers)

    def events(self, path: str, body: object, *, model: str) -> AsyncGenerator[dict[str, Any], None]:
        """The JSON objects of a stream, up to its [DONE]. Closing it closes the HTTP answer.

        Raises HearthError.
        """
        return self._tried(lambda endpoint: self._events_once(endpoint, path, body, model))

    async def look(self) -> None:
        """Ask every server whether it is there, and for its models. Raises nothing: see `health`."""
        await asyncio.gather(*(self._look_at(endpoint) for endpoint in self._endpoints))

    def watch(self) -> None:
        """Look at the servers in the background; those that are not there are looked at until they are."""
        for endpoint in self._endpoints:
            self._probe(endpoint)

    async def close(self) -> None:
        """End probes and connections. Later calls raise EngineUnavailable."""
        self._closed = True
        probes = [one.probing for one in self._endpoints if one.probing is not None]
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    async def _tried(
        self, once: Callable[[_Endpoint], AsyncGenerator[Piece, None]]
    ) -> AsyncGenerator[Piece, None]:
        """The pieces of the first try that has any."""
        for attempt in range(self._settings.retries + 1):
            failure: Unreachable | EngineBusy | None = None
            for endpoint in self._endpoints:
                if endpoint.circuit.open:
                    continue
                try:
                    async with aclosing(once(endpoint)) as pieces:
                        async for piece in pieces:
                            yield piece
                    return
                except (Unreachable, EngineBusy) as error:  # before the first piece
                    failure = error
                    if isinstance(error, Unreachable) and not error.retriable:
                        raise
            if failure is None:
                raise self._down()
            if attempt == self._settings.retries:
                raise failure
            seconds = backoff(attempt + 1, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE)
            if isinstance(failure, EngineBusy):
                if failure.retry_after > LONGEST_RETRY_AFTER:
                    raise failure
                seconds = max(seconds, failure.retry_after)
            await self._pause(seconds)

    def _down(self) -> Unreachable:
        reasons = "; ".join(dict.fromkeys(self.reasons.values()))
        return Unreachable(
            f"The remote {self._settings.name} is down. {reasons}",
            meaning="It is looked at in the background and used again as soon as it answers.",
            action="Run `hearth doctor`; or use a model of this machine.",
            retriable=False,
        )

    async def _ask_once(self, endpoint: _Endpoint, method: str, path: str, body: object, model: str) -> Any:
        async with self._answer(endpoint, method, path, body, model) as answer:
            whole = await read_body(answer.response, LARGEST_ANSWER)
            try:
                value = json.loads(whole)
            except (ValueError, RecursionError):
                raise MalformedAnswer("its answer is not JSON") from None
            endpoint.circuit.answered()
        return value

    async def _events_once(
        self, endpoint: _Endpoint, path: str, body: object, model: str
    ) -> AsyncGenerator[dict[str, Any], None]:
        async with self._answer(endpoint, "POST", path, body, model) as answer:
            if not answer.response.headers.get("content-type", "").startswith("text/event-stream"):
                raise MalformedAnswer("its answer is not an event stream")
            reader, size = SseReader(), 0
            async for piece in answer.response.aiter_raw():
                size += len(piece)
                if size > LARGEST_ANSWER:
                    raise MalformedAnswer(f"its answer is longer than {LARGEST_ANSWER} bytes")
                for data in reader.feed(piece):
                    if data == "[DONE]":
                        return
                    value = json_object(data)
                    if value.get("error"):
                        raise told_in_stream(self._settings.name, value["error"])
                    endpoint.circuit.answered()
                    answer.begun = True
                    yield value
            why = "the stream ended without its end mark"
            raise (
                broke_off(self._settings.name, why) if answer.begun else unreachable(self._settings.name, why)
            )

    @asynccontextmanager
    async def _answer(
        self, endpoint: _Endpoint, method: str, path: str, body: object, model: str
    ) -> AsyncGenerator[_Answer, None]:
        """An answer with status 200, still to be read; leaving the block closes it.

        Everything that the network does, in the block too, becomes a HearthError, and is counted.
        """
        name = self._settings.name
        answer: _Answer | None = None
        try:
            client = await self._open()
            request = client.build_request(method, endpoint.url + path, json=body)
            response = await client.send(request, stream=True)
            try:
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise MalformedAnswer("its answer is compressed, which was not asked for")
                if response.status_code != 200:
                    start = await read_body(response, _LARGEST_ERROR, cut=True)
                    raise wrong_status(name, path, model, response.status_code, response.headers, start)
                answer = _Answer(response)
                yield answer
            finally:
                await response.aclose()
        except httpx2.TransportError as error:
            begun = answer is not None and answer.begun
            raise self._counted(endpoint, lost(error, self._settings, begun=begun)) from None
        except MalformedAnswer as error:
            raise malformed(name, str(error)) from None
        except Unreachable as error:
            self._counted(endpoint, error)
            raise
        except Refused as error:
            endpoint.circuit.refused(error)
            raise

    def _counted(self, endpoint: _Endpoint, error: HearthError) -> HearthError:
        if isinstance(error, Refused):
            endpoint.circuit.refused(error)
        elif not isinstance(error, EngineBusy) and endpoint.circuit.failed(error):
            log.warning("the remote %s is down", self._settings.name)
            self._probe(endpoint)
        return error

    def _probe(self, endpoint: _Endpoint) -> None:
        if endpoint.probing is None and not self._closed:
            endpoint.probing = asyncio.create_task(self._until_up(endpoint))

    async def _until_up(self, endpoint: _Endpoint) -> None:
        attempt = 0
        try:
            if endpoint.circuit.open:
                attempt = 1
                await self._pause(backoff(attempt, first=_FIRST_PROBE, longest=_LONGEST_PROBE))
            while not await self._look_at(endpoint):
                attempt += 1
                await self._pause(backoff(attempt, first=_FIRST_PROBE, longest=_LONGEST_PROBE))
        finally:
            endpoint.probing = None

    async def _look_at(self, endpoint: _Endpoint) -> bool:
        """Whether it answers, be it with a refusal."""
        was_down = endpoint.circuit.open
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                self._learn(await self._ask_once(endpoint, "GET", MODELS, None, ""))
        except (Unreachable, TimeoutError) as error:
            silent = unreachable(self._settings.name, f"was silent for {_LOOK_SECONDS:g} s")
            failure = error if isinstance(error, Unreachable) else silent
            if endpoint.circuit.failed(failure, for_sure=True):
                log.warning("the remote %s does not answer", self._settings.name)
            return False
        except EngineBusy:
            endpoint.circuit.answered()
        except HearthError as error:  # the key is wrong, or what answers is no such server
            endpoint.circuit.refused(error)
        if was_down:
            self.recoveries += 1
            log.info("the remote %s answers again", self._settings.name)
        return True

    def _learn(self, answer: Any) -> None:
        rows = answer.get("data") if isinstance(answer, dict) else None
        if isinstance(rows, list):
            named = [row for row in rows[:1000] if isinstance(row, dict) and isinstance(row.get("id"), str)]
            self.listed = {
                row["id"][:256]: window
                if isinstance(window := row.get("max_model_len"), int) and window > 0
                else 0
                for row in named
            }

    async def _open(self) -> httpx2.AsyncClient:
        """The pool, made at the first request, for the key may ask a keyring. Raises SettingsError."""
        async with self._opening:
            if self._closed:
                raise EngineUnavailable("The engine is shutting down.", action="Try again in a moment.")
            if self._client is None:
                self._client = await open_client(self._settings)
            return self._client
