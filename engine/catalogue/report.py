"""How long work on model files tells a person where it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

OnBytes = Callable[[int], None]  # told how many bytes are done so far


def no_progress(_done: int) -> None:
    """An OnBytes that tells nobody."""


class Reporter(Protocol):
    """Receives progress. Called from the thread that works; must return quickly."""

    def progress(self, stage: str, done: int, total: int) -> None:
        """`done` of `total` bytes of a stage (a short phrase) are finished."""
        ...

    def note(self, text: str) -> None:
        """One sentence worth keeping on the screen, such as why a source was given up."""
        ...


class Silent:
    """A reporter that tells nobody."""

    def progress(self, stage: str, done: int, total: int) -> None:
        pass

    def note(self, text: str) -> None:
        pass


SILENT = Silent()


def size_text(count: int) -> str:
    """Bytes as people read them, in decimal units as disks and downloads are sold: "491.4 MB"."""
    if count < 1_000_000:
        return f"{count:,} bytes"
    if count < 1_000_000_000:
        return f"{count / 1e6:.1f} MB"
    return f"{count / 1e9:.2f} GB"
