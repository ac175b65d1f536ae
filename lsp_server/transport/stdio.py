"""The process' life on stdin and stdout: read, dispatch, stop, exit code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from pygls.io_ import StdoutWriter

from lsp_server.transport.framing import FrameError, read_frame
from lsp_server.transport.logs import describe
from lsp_server.transport.protocol import Phase

if TYPE_CHECKING:
    from lsp_server.server import HearthServer

log = logging.getLogger(__name__)

_READ_SIZE = 1 << 16
_CLOSE_SECONDS = 5.0


def run_stdio(server: HearthServer) -> NoReturn:
    """Serve on this process' stdin and stdout until the session ends, then end the process.

    Exit code: 0 after shutdown and then exit (or the end of stdin), else 1. The process ends at once: a
    worker thread that still hashes or computes must not outlive the editor.
    """
    # Whatever prints from now on (a library, native code) must not land between two messages.
    stdout = os.fdopen(os.dup(1), "wb")
    sys.stdout.flush()
    os.dup2(2, 1)
    code = asyncio.Runner().run(_serve(server, StdoutWriter(stdout)))
    logging.shutdown()
    os._exit(code)


async def _serve(server: HearthServer, writer: StdoutWriter) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_unhandled)
    server.protocol.set_writer(writer)
    reader = asyncio.StreamReader(limit=_READ_SIZE)
    _start_reading(0, reader, loop)
    reading = asyncio.create_task(read_messages(server, reader))
    stopping = asyncio.create_task(server.stopped.wait())
    server.protocol.on_disconnect = server.stopped.set
    await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
    for task in (reading, stopping):
        task.cancel()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(server.close(), _CLOSE_SECONDS)
    return 0 if server.protocol.phase is Phase.SHUT_DOWN else 1


async def read_messages(server: HearthServer, reader: asyncio.StreamReader) -> None:
    """Hand each message to the protocol, in order, until the stream ends."""
    while not server.stopped.is_set():
        try:
            body = await read_frame(reader)
        except FrameError as error:
            server.protocol.refuse_unreadable(f"The message cannot be read: {error}.")
            continue
        if body is None:
            log.info("stdin has ended")
            return
        server.protocol.handle_body(body)
        # A reader with bytes in its buffer never waits; let running work have its turn.
        await asyncio.sleep(0)


def _start_reading(fd: int, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    """Feed `reader` from a thread of its own: nothing else can keep it from reading.

    os.read and not sys.stdin: a daemon thread that holds a buffered reader's lock breaks interpreter exit.
    """

    def pump() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has ended
            while True:
                try:
                    data = os.read(fd, _READ_SIZE)
                except OSError:
                    data = b""
                if not data:
                    loop.call_soon_threadsafe(reader.feed_eof)
                    return
                loop.call_soon_threadsafe(reader.feed_data, data)

    threading.Thread(target=pump, name="hearth-stdin", daemon=True).start()


def _log_unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    log.error("background work failed: %s", describe(error) if error else "no exception")
