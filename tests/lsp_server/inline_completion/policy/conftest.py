"""A scripted engine and short ways to ask questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

import pytest

from engine.types import (
    ChatRequest,
    EngineStatus,
    FinishReason,
    InfillRequest,
    TextDelta,
    Timing,
)
from lsp_server.inline_completion.policy import Question, Selected, Suggestion
from lsp_server.inline_completion.policy.cursor import read_cursor

CURSOR = "¦"


def pieces_of(text: str) -> list[str]:
    """Short pieces, as a model's tokens would come."""
    return [text[start : start + 3] for start in range(0, len(text), 3)]


@dataclass
class ScriptedEngine:
    """Plays one script per request; the last one is played again and again.

    scripts: what the model writes, or reply: a function that writes it. logprob: of every piece.
    finish: how a stream that is read to its end ends.
    hang: after the script, wait for ever (a model that is still busy). sent: pieces handed out per stream.
    """

    scripts: list[str]
    logprob: float = -0.1
    finish: FinishReason = FinishReason.STOP
    hang: bool = False
    reply: Callable[[InfillRequest], str] | None = None
    requests: list[InfillRequest] = field(default_factory=list)
    warmed: list[InfillRequest] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    closed: int = 0
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    was_warmed: asyncio.Event = field(default_factory=asyncio.Event)

    async def infill(self, request: InfillRequest) -> AsyncGenerator[TextDelta, None]:
        number = len(self.requests)
        self.requests.append(request)
        self.sent.append(0)
        script = self.reply(request) if self.reply else self.scripts[min(number, len(self.scripts) - 1)]
        try:
            for piece in pieces_of(script):
                self.sent[number] += 1
                yield TextDelta(piece, logprob=self.logprob)
            if self.hang:
                self.hanging.set()
                await asyncio.Event().wait()
            timing = Timing(100, 90, 0.0, 0.01, 0.1, self.sent[number])
            yield TextDelta("", tokens=0, finish=self.finish, timing=timing)
        finally:
            self.closed += 1

    async def chat(self, request: ChatRequest) -> AsyncGenerator[TextDelta, None]:
        raise AssertionError("inline completion never chats")
        yield

    async def warm(self, request: InfillRequest) -> None:
        self.warmed.append(request)
        self.was_warmed.set()

    async def status(self) -> EngineStatus:
        return EngineStatus("ready")

    async def close(self) -> None:
        pass


@pytest.fixture
def scripted():
    """Make a scripted engine: scripted("text", "text of the second request", logprob=-3.0)."""

    def make(*scripts: str, **options) -> ScriptedEngine:
        return ScriptedEngine(list(scripts) or [""], **options)

    return make


@pytest.fixture
def ask():
    """Make a question from a document in which ¦ marks the cursor: ask("return ¦\\n", "python")."""

    def make(document: str, language_id: str = "python", **options) -> Question:
        offset = document.index(CURSOR)
        text = document.replace(CURSOR, "", 1)
        selected = options.pop("selected", None)
        if selected is not None:
            selected = Selected(*selected)
        options.setdefault("uri", "file:///project/a")
        return Question(text=text, offset=offset, language_id=language_id, selected=selected, **options)

    return make


@pytest.fixture
def apply():
    """The document after a suggestion is accepted."""

    def make(question: Question, suggestion: Suggestion) -> str:
        return question.text[: suggestion.start] + suggestion.insert_text + question.text[suggestion.end :]

    return make


@pytest.fixture
def cursor_at(ask):
    """The cursor that the rules see."""
    return lambda document, language_id="python", **options: read_cursor(
        ask(document, language_id, **options)
    )
