"""A language client over a server's stdin and stdout, as small as an editor's can be.

It shares no code with the server's side of the protocol, so that what it gets is what an editor would get.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from engine.errors import HearthError

_LENGTH = re.compile(rb"^content-length: *(\d+)", re.IGNORECASE | re.MULTILINE)
_STDERR_SHOWN = 600  # last characters of what the server said before it died


class ServerGone(HearthError):
    """The server process ended, or could not be started, or said something that is not the protocol."""

    code = "server-gone"


class Refused(HearthError):
    """The server answered a request with an error."""

    code = "refused"


class StdioClient:
    """Requests and notices to one server process.

    on_notice is called with each notice's method and params, on the event loop.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        on_notice: Callable[[str, Any], None],
        said: Callable[[], str],
    ) -> None:
        assert process.stdin is not None  # noqa: S101 - both are pipes: see `connect`
        assert process.stdout is not None  # noqa: S101
        self._process, self._writer, self._reader = process, process.stdin, process.stdout
        self._on_notice = on_notice
        self._said = said
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._gone: ServerGone | None = None
        self._reading = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        """Of the server's process."""
        return self._process.pid

    async def request(self, method: str, params: object) -> Any:
        """The server's result. Raises Refused, or ServerGone."""
        if self._gone is not None:
            raise self._gone
        number = next(self._numbers)
        self._waiting[number] = answer = asyncio.get_running_loop().create_future()
        await self._send({"id": number, "method": method, "params": params})
        return await answer

    async def notify(self, method: str, params: object) -> None:
        """Send a notice, which has no answer."""
        await self._send({"method": method, "params": params})

    async def close(self) -> None:
        """Shut the server down as the protocol says; end it by force when it does not end by itself."""
        try:
            async with asyncio.timeout(10):
                await self.request("shutdown", None)
                await self.notify("exit", None)
                await self._process.wait()
        except (HearthError, TimeoutError):
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        finally:
            self._reading.cancel()

    async def _send(self, message: dict[str, object]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        try:
            await self._writer.drain()
        except ConnectionError:
            await self._process.wait()  # the reader then tells every caller that the server is gone

    async def _read(self) -> None:
        try:
            while True:
                length = _LENGTH.search(await self._reader.readuntil(b"\r\n\r\n"))
                if length is None:
                    raise ValueError("a header without Content-Length")
                self._receive(json.loads(await self._reader.readexactly(int(length[1]))))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            await self._end(error)

    async def _end(self, error: Exception) -> None:
        if isinstance(error, asyncio.IncompleteReadError) and not error.partial:
            what = f"The server ended by itself with exit code {await self._process.wait()}."
        else:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            what = "The server wrote something to its standard output that is not the protocol."
        said = self._said()
        self._gone = ServerGone(what, meaning=f"Its last words were: {said}" if said else "It said nothing.")
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._gone)
        self._on_notice("$/gone", None)

    def _receive(self, message: dict[str, Any]) -> None:
        if "method" in message:
            if "id" in message:
                self._answer(message)
            else:
                self._on_notice(message["method"], message.get("params"))
            return
        answer = self._waiting.pop(message.get("id", 0), None)
        if answer is None or answer.done():  # the caller gave up
            return
        if "error" in message:
            answer.set_exception(
                Refused(f"The server refused the request: {message['error'].get('message')}")
            )
        else:
            answer.set_result(message.get("result"))

    def _answer(self, message: dict[str, Any]) -> None:
        """Answer a request of the server's: no configuration of our own, and yes to the rest."""
        result: object = None
        if message["method"] == "workspace/configuration":
            result = [None for _ in message["params"]["items"]]
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self._writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)


@asynccontextmanager
async def connect(
    command: Sequence[str], on_notice: Callable[[str, Any], None]
) -> AsyncIterator[StdioClient]:
    """Start a server and talk to it; it is shut down on leaving. Raises ServerGone when it does not start."""
    # A file, not a pipe: a server that says much on stderr must never wait for us to read it.
    with tempfile.TemporaryFile() as stderr:

        def said() -> str:
            stderr.seek(0)
            return stderr.read().decode(errors="replace").strip()[-_STDERR_SHOWN:]

        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                limit=1 << 24,
            )
        except OSError as error:
            raise ServerGone(f"The server cannot be started: {command[0]}: {error.strerror}.") from error
        client = StdioClient(process, on_notice, said)
        try:
            yield client
        finally:
            await client.close()
