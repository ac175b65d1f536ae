import asyncio

import pytest

from lsp_server.transport import framing
from lsp_server.transport.framing import FrameError, read_frame


def stream(data, limit=1 << 16):
    reader = asyncio.StreamReader(limit=limit)
    reader.feed_data(data)
    reader.feed_eof()
    return reader


async def test_frames_follow_each_other_until_the_end():
    reader = stream(b"Content-Length: 2\r\n\r\n{}Content-Type: x\r\ncontent-length:3\r\n\r\n[1]")
    assert [await read_frame(reader), await read_frame(reader), await read_frame(reader)] == [
        b"{}",
        b"[1]",
        None,
    ]


@pytest.mark.parametrize(
    "data", [b"", b"Content-Length: 5", b"Content-Length: 5\r\n", b"Content-Length: 5\r\n\r\n{"]
)
async def test_an_end_anywhere_is_the_end(data):
    assert await read_frame(stream(data)) is None


@pytest.mark.parametrize("length", [b"-1", b"1e3", b"", b"9" * 40])
async def test_a_length_that_is_none_is_an_error_and_the_next_frame_is_read(length):
    reader = stream(b"Content-Length: " + length + b"\r\n\r\nContent-Length: 2\r\n\r\n{}")
    with pytest.raises(FrameError):
        await read_frame(reader)
    assert await read_frame(reader) == b"{}"


async def test_a_body_over_the_limit_is_skipped_whole(monkeypatch):
    monkeypatch.setattr(framing, "MAX_BODY", 10)
    reader = stream(b"Content-Length: 11\r\n\r\n" + b"x" * 11 + b"Content-Length: 2\r\n\r\n{}")
    with pytest.raises(FrameError):
        await read_frame(reader)
    assert await read_frame(reader) == b"{}"
