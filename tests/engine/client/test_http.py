"""The client's connection to the daemon's socket."""

import asyncio
import errno
import socket
from contextlib import ExitStack

import pytest

from engine.client.http import NotListening, exchange


async def ask(path):
    async with exchange(path, "GET", "/") as response:
        return await response.body()


async def test_a_daemon_with_more_callers_than_it_has_room_for_is_there_all_the_same(tmp_path):
    """Else each of them would start another daemon, and be told that the first one ends all the time."""
    path = tmp_path / "s"

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        listener.listen(1)
        full = False
        while not full:
            caller = stack.enter_context(socket.socket(socket.AF_UNIX))
            caller.setblocking(False)
            full = caller.connect_ex(str(path)) == errno.EAGAIN
        asked = asyncio.create_task(ask(path))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not asked.done()
        async with await asyncio.start_unix_server(answer, sock=listener):
            assert await asyncio.wait_for(asked, 60) == b"{}"


async def test_nobody_listens(tmp_path):
    with pytest.raises(NotListening):
        await ask(tmp_path / "absent")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
        with pytest.raises(NotListening):
            await ask(tmp_path / "s")
