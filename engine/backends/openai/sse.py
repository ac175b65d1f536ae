"""Server-sent events, read strictly: bytes in, in whatever cuts they come; the data of whole events out.

Source: the WHATWG HTML standard, "Server-sent events". Stricter than it: what is neither a field of the
standard nor a comment, bytes that are not UTF-8, and events that are too large end the stream, for then the
answer is not what was asked for. httpx's own reader is lenient in these.
"""

from __future__ import annotations

from engine.backends.openai.failures import MalformedAnswer

LARGEST_EVENT = 1 << 20
"""Bytes; one piece of an answer is far smaller."""

_FIELDS = (b"data", b"event", b"id", b"retry")
_BOM = b"\xef\xbb\xbf"


class SseReader:
    """One stream's reader."""

    def __init__(self, largest_event: int = LARGEST_EVENT) -> None:
        self._largest = largest_event
        self._rest = b""
        self._at_start = True
        self._after_cr = False  # a line feed that comes next belongs to the line end before
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[str]:
        """The data of the events that this piece ends. Raises MalformedAnswer."""
        events = []
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        # Only the new piece is searched for line ends, so that a long line costs its length once.
        start = 0
        while (end := _line_end(piece, start)) >= 0:
            line = self._rest + piece[start:end]
            self._rest = b""
            start = end + 1
            if piece[end : end + 1] == b"\r":
                if start == len(piece):
                    self._after_cr = True
                elif piece[start : start + 1] == b"\n":
                    start += 1
            if (data := self._line(line)) is not None:
                events.append(data)
        self._rest += piece[start:]
        if self._size + len(self._rest) > self._largest:
            raise self._too_large()
        return events

    @property
    def inside(self) -> bool:
        """Whether an event has begun and not ended."""
        return bool(self._rest or self._data)

    def _line(self, line: bytes) -> str | None:
        if self._at_start:
            line = line.removeprefix(_BOM)
            self._at_start = False
        if not line:
            return self._end_of_event()
        if line.startswith(b":"):
            return None
        name, _, value = line.partition(b":")
        if name not in _FIELDS:
            raise MalformedAnswer("a line of its stream is not a server-sent event")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._size += len(line)
            if self._size > self._largest:
                raise self._too_large()
        return None

    def _end_of_event(self) -> str | None:
        data = b"\n".join(self._data)
        self._data, self._size = [], 0
        try:
            return data.decode("utf-8") or None
        except UnicodeDecodeError:
            raise MalformedAnswer("its stream is not UTF-8") from None

    def _too_large(self) -> MalformedAnswer:
        return MalformedAnswer(f"one event of its stream is larger than {self._largest} bytes")


def _line_end(text: bytes, start: int) -> int:
    """The next line feed or carriage return; -1 when there is none."""
    feed = text.find(b"\n", start)
    carriage = text.find(b"\r", start, feed if feed >= 0 else len(text))
    return carriage if carriage >= 0 else feed
