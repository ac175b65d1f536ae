"""Reading one generation, and closing it the moment a stop rule has seen enough.

While it runs, its reader may change: when the user types what the model is writing, the rest of the text
is just what a new run would begin with. So `Generation.follow` reads on, for the newer question.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import asdict, dataclass
from enum import Enum, auto
from typing import Any

from engine.client import EngineClient
from engine.types import FinishReason, InfillRequest, TextDelta
from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.line_ends import to_lf
from lsp_server.inline_completion.policy.mode import Mode
from lsp_server.inline_completion.policy.stop import Cut, find_cut


@dataclass(frozen=True)
class Reader:
    """For whom the text is read. typed: what stands in the document of it, before the cursor, LF."""

    cursor: Cursor
    mode: Mode
    max_tokens: int
    typed: str = ""


@dataclass(frozen=True)
class Generated:
    """What the model wrote for the reader: the text behind what was typed.

    text: all of it, LF. cut: where a stop rule ended it, None when it ended by itself.
    truncated: it ran out of tokens. mean_logprob: per token, over what the cut keeps.
    trace: plain values about time and tokens.
    """

    text: str
    cut: Cut | None
    truncated: bool
    mean_logprob: float
    trace: dict[str, Any]


class _Verdict(Enum):
    """What the text so far means to a reader."""

    MORE = auto()  # it agrees with what was typed, and more of it is needed
    ENOUGH = auto()
    USELESS = auto()  # another run must be made


class Generation:
    """One run of the engine. It is read once."""

    def __init__(self, engine: EngineClient, request: InfillRequest, cursor: Cursor, mode: Mode) -> None:
        self.request = request
        self._engine = engine
        self._reader = Reader(cursor, mode, request.max_tokens)
        self._text = ""
        self._held = ""  # a CR that may be the first half of a CRLF, so it waits for what follows
        self._deltas: list[TextDelta] = []
        self._finish: FinishReason | None = None
        self._complete = False  # the engine ended the stream
        self._collecting: asyncio.Task[None] | None = None
        self._started = self._first_piece_s = 0.0

    async def read(self) -> Generated | None:
        """The text for the last reader; None when it is not what was typed, or too short for that reader.

        Cancelling the caller closes the stream at once. Raises HearthError.
        """
        self._started = time.perf_counter()
        self._collecting = asyncio.create_task(self._collect())
        try:
            await asyncio.wait({self._collecting})
        finally:
            self._collecting.cancel()
            await asyncio.wait({self._collecting})
            failure = None if self._collecting.cancelled() else self._collecting.exception()
        if failure is not None:
            raise failure
        return None if self._verdict(self._reader) is _Verdict.USELESS else self._generated()

    def agrees(self, typed: str) -> bool:
        """Whether the text so far begins with `typed`, or `typed` with what there is of the text."""
        return self._text.startswith(typed) or (typed.startswith(self._text) and not self._complete)

    def follow(self, reader: Reader) -> bool:
        """Go on for another reader; False when this text cannot serve it."""
        verdict = self._verdict(reader)
        collecting = self._collecting is not None and not self._collecting.done()
        if verdict is _Verdict.USELESS or (verdict is _Verdict.MORE and not collecting):
            return False
        self._reader = reader
        if verdict is _Verdict.ENOUGH and self._collecting is not None:
            self._collecting.cancel()
        return True

    async def _collect(self) -> None:
        async with aclosing(self._engine.infill(self.request)) as stream:
            async for delta in stream:
                self._take(delta)
                if self._verdict(self._reader) is not _Verdict.MORE:
                    return
        self._text = to_lf(self._text + self._held)
        self._complete = True

    def _take(self, delta: TextDelta) -> None:
        self._first_piece_s = self._first_piece_s or time.perf_counter() - self._started
        self._deltas.append(delta)
        self._finish = delta.finish
        new = self._held + delta.text
        self._held = "\r" if new.endswith("\r") else ""
        self._text += to_lf(new.removesuffix("\r"))

    def _verdict(self, reader: Reader) -> _Verdict:
        if not self.agrees(reader.typed):
            return _Verdict.USELESS
        if len(self._text) >= len(reader.typed) and self._cut(reader, final=False) is not None:
            return _Verdict.ENOUGH
        if not self._complete:
            return _Verdict.ENOUGH if self._used_up(reader) else _Verdict.MORE
        # A run for one line ends early; who needs several lines needs another run.
        short = self._finish is FinishReason.LENGTH and self.request.max_tokens < reader.max_tokens
        return _Verdict.USELESS if short else _Verdict.ENOUGH

    def _cut(self, reader: Reader, *, final: bool) -> Cut | None:
        return find_cut(self._text[len(reader.typed) :], reader.cursor, reader.mode, final=final)

    def _used_up(self, reader: Reader) -> bool:
        """Whether a reader that came later has what a run of its own would have given it."""
        if not reader.typed:
            return False  # the engine counts for the first one
        position = tokens = 0
        for delta in self._deltas:
            tokens += delta.tokens if position >= len(reader.typed) else 0
            position += len(delta.text)
        return tokens >= reader.max_tokens

    def _generated(self) -> Generated:
        reader = self._reader
        text = self._text[len(reader.typed) :]
        cut = self._cut(reader, final=False) or self._cut(reader, final=True)
        mean = mean_logprob(self._deltas, len(reader.typed), cut.keep if cut else len(text))
        elapsed = time.perf_counter() - self._started
        tokens = sum(delta.tokens for delta in self._deltas)
        trace: dict[str, Any] = {
            "raw": text,
            "typed_along": len(reader.typed),
            "cut": cut.rule if cut else "",
            "finish": str(self._finish) if self._finish else "stopped by rule",
            "tokens": tokens,
            "mean_logprob": round(mean, 4),
            "first_piece_s": round(self._first_piece_s, 4),
            "elapsed_s": round(elapsed, 4),
            "tokens_per_second": round(tokens / elapsed, 1) if elapsed > 0 else 0.0,
        }
        timing = next((delta.timing for delta in reversed(self._deltas) if delta.timing), None)
        if timing is not None:
            trace["timing"] = asdict(timing)
        truncated = self._finish is FinishReason.LENGTH or (cut is None and not self._complete)
        return Generated(text, cut, truncated, mean, trace)


def mean_logprob(deltas: list[TextDelta], start: int, keep: int) -> float:
    """Mean natural-log probability per token, over the pieces within `keep` characters from `start` on."""
    position, tokens, total = 0, 0, 0.0
    for delta in deltas:
        if position >= start + keep and tokens:
            break
        position += len(delta.text)
        if position <= start > 0:
            continue
        tokens += delta.tokens
        total += delta.logprob
    return total / tokens if tokens else 0.0
