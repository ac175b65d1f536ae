"""Progress of long work on stderr: a bar on a terminal, now and then a plain line elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from engine.client.models import Reporter

_STEPS = 10  # plain lines for one stage


class BarReporter:
    """Draws one bar, whose text is the stage in progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, visible=False)

    def progress(self, stage: str, done: int, total: int) -> None:
        self._progress.update(self._task, description=stage, completed=done, total=total, visible=True)

    def note(self, text: str) -> None:
        self._progress.console.print(Text(text))


class LineReporter:
    """Prints a line when a stage begins and after every tenth of it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: tuple[str, int] | None = None

    def progress(self, stage: str, done: int, total: int) -> None:
        tenth = done * _STEPS // max(total, 1)
        if self._last != (stage, tenth):
            self._last = (stage, tenth)
            self._console.print(f"{stage}: {decimal(done)} of {decimal(total)}")

    def note(self, text: str) -> None:
        self._console.print(Text(text))


@contextmanager
def reporting() -> Iterator[Reporter]:
    """A reporter for this stderr."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    if not console.is_terminal:
        yield LineReporter(console)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield BarReporter(progress)
