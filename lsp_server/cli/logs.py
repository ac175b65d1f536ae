"""`hearth logs`: the daemon's log, which holds no source text."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import HearthError


def logs(
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
) -> None:
    """Show the last lines of the engine's log, and of what a crash left."""
    from engine.client import service

    log, crash = service.log_files()
    if follow:
        # tail knows about rotated files; -F waits for one that is not there yet.
        os.execvp("tail", ["tail", "-n", str(lines), "-F", str(log)])  # noqa: S606 - no shell
    if not log.exists():
        typer.echo(f"There is no log yet; it will be {log}", err=True)
    for path in (crash, log):
        for line in _last(path, lines):
            typer.echo(line, nl=False)


def _last(path: Path, lines: int) -> deque[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return deque(file, maxlen=lines)
    except FileNotFoundError:
        return deque()
    except OSError as error:
        raise HearthError(
            f"{path} cannot be read: {error.strerror}.",
            action="Check its permissions, or what HEARTH_HOME names.",
        ) from error
