"""An engine that writes a piece each time it is told to: tests decide what happens between two tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

import pytest

from engine.types import EngineStatus, FinishReason, InfillRequest, TextDelta, Timing


@dataclass
class Run:
    """One stream: how many pieces it may still hand out, and whether it has been closed."""

    request: InfillRequest
    allowed: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    closed: bool = False


class SteppedEngine:
    """`reply` says what the model writes. Two streams at once are an error: tests use one document."""

    def __init__(self, reply: Callable[[InfillRequest], str], finish: FinishReason, piece: int) -> None:
        self.reply, self.finish, self.piece = reply, finish, piece
        self.runs: list[Run] = []

    def allow(self, pieces: int) -> None:
        """Let the stream that runs hand out so many pieces more."""
        for run in self.runs:
            if not run.closed:
                for _ in range(pieces):
                    run.allowed.release()

    async def infill(self, request: InfillRequest) -> AsyncGenerator[TextDelta, None]:
        assert all(run.closed for run in self.runs)
        run = Run(request)
        self.runs.append(run)
        text = self.reply(request)
        try:
            for start in range(0, len(text), self.piece):
                await run.allowed.acquire()
                yield TextDelta(text[start : start + self.piece], logprob=-0.1)
            await run.allowed.acquire()
            yield TextDelta("", 0, 0.0, self.finish, Timing(9, 0, 0.0, 0.1, 0.1, 3))
        finally:
            run.closed = True

    async def warm(self, request: InfillRequest) -> None:
        pass

    async def status(self) -> EngineStatus:
        return EngineStatus("ready")

    async def close(self) -> None:
        pass


@pytest.fixture(scope="session")
def stepped():
    """Make a stepped engine: stepped("text") or stepped(reply)."""

    def make(reply, finish=FinishReason.STOP, piece=3):
        return SteppedEngine(reply if callable(reply) else lambda _: reply, finish, piece)

    return make
