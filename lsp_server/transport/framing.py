"""Content-Length framing of the base protocol, tolerant where that is safe."""

from __future__ import annotations

import asyncio
import re

MAX_BODY = 512 * 1024 * 1024  # bytes; a larger message is refused without keeping it
_LENGTH = re.compile(rb"content-length\s*:\s*(\d{1,15})\s*", re.IGNORECASE)
_SKIP_STEP = 1 << 20


class FrameError(Exception):
    """A header block without a usable Content-Length, or a body over MAX_BODY; reading may go on."""


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next message body, or None at the end of the stream (also when it ends inside a message).

    Raises FrameError once per broken header block; the block has then been consumed.
    """
    length: int | None = None
    seen_any = False
    while True:
        try:
            line = await reader.readline()
        except ValueError as error:  # a line over the stream's limit; the stream has dropped it
            raise FrameError("a header line is too long") from error
        if not line.endswith(b"\n"):
            return None
        line = line.rstrip(b"\r\n")
        if line:
            seen_any = True
            if match := _LENGTH.fullmatch(line):
                length = int(match.group(1))
        elif length is not None:
            return await _read_body(reader, length)
        elif seen_any:
            raise FrameError("a message has no Content-Length header")


async def _read_body(reader: asyncio.StreamReader, length: int) -> bytes | None:
    try:
        if length <= MAX_BODY:
            return await reader.readexactly(length)
        while length > 0:
            length -= len(await reader.readexactly(min(length, _SKIP_STEP)))
    except asyncio.IncompleteReadError:
        return None
    raise FrameError(f"a message is larger than {MAX_BODY} bytes")
