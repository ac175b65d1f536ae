"""A home for Hearth under tmp_path, a small model, and sources that misbehave on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import constants as hub_constants

from engine.catalogue.entry import ModelEntry
from engine.catalogue.partial import PartialFile
from engine.catalogue.report import Reporter
from engine.catalogue.source import SourceError

CONTENT = b"GGUF" + bytes(range(256)) * 40


class Recorder:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[tuple[str, int, int]] = []

    def progress(self, stage: str, done: int, total: int) -> None:
        self.steps.append((stage, done, total))

    def note(self, text: str) -> None:
        self.notes.append(text)


class FakeSource:
    """Gives `content` in chunks from where the target stands; `before_chunk` may raise or look around.

    Attributes: starts, the offsets at which it was asked to begin.
    """

    spare_bytes = 0

    def __init__(
        self,
        content: bytes = CONTENT,
        *,
        label: str = "fake",
        before_chunk: Callable[[PartialFile], None] = lambda target: None,
    ) -> None:
        self.content = content
        self.label = self.kind = label
        self.starts: list[int] = []
        self._before_chunk = before_chunk

    def fetch(self, target: PartialFile, report: Reporter) -> None:
        self.starts.append(target.offset)
        for start in range(target.offset, len(self.content), 1000):
            self._before_chunk(target)
            target.append(self.content[start : start + 1000])
            report.progress("downloading", target.offset, target.size)


def fails_at(offset: int, error: BaseException) -> Callable[[PartialFile], None]:
    """A `before_chunk` that raises once the target holds `offset` bytes."""

    def before_chunk(target: PartialFile) -> None:
        if target.offset >= offset:
            raise error

    return before_chunk


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HEARTH_HOME of the test; no model of the machine it runs on is seen."""
    monkeypatch.setenv("HEARTH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HEARTH_MODEL_PATH", raising=False)
    monkeypatch.setattr(hub_constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    return tmp_path / "home"


@pytest.fixture
def content() -> bytes:
    return CONTENT


@pytest.fixture
def entry() -> ModelEntry:
    return ModelEntry(
        id="tiny",
        title="Tiny",
        licence="Apache-2.0",
        base_repo="someone/tiny",
        file="tiny.gguf",
        bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def fake_source() -> type[FakeSource]:
    return FakeSource


@pytest.fixture
def stop_at() -> Callable[[int, BaseException], Callable[[PartialFile], None]]:
    return fails_at


@pytest.fixture
def broken_source() -> FakeSource:
    return FakeSource(label="broken", before_chunk=fails_at(0, SourceError("the door is shut")))
