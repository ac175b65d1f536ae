"""The daemon's log: one rotated file for people, without a word of anybody's source text.

Requests, paths, tool arguments and answers are never logged by Hearth. What other libraries log may quote
them, and so may the message of any exception; so of those only the kind and the place are kept.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import traceback
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

MAX_BYTES = 2_000_000
BACKUPS = 3
FILE_NAME = "daemon.log"

# Ours: what they log is chosen with care. Of all others nothing but their own constant words is kept.
_OURS = ("engine",)
_TOO_TALKATIVE = ("uvicorn.access", "uvicorn.asgi", "asyncio", "websockets", "httptools")

log = logging.getLogger(__name__)


class Careful(logging.Formatter):
    """Writes exceptions without their messages, and the records of other libraries without their values."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        copy = logging.makeLogRecord(record.__dict__)
        copy.exc_text = None
        copy.stack_info = None
        if copy.name.split(".")[0] not in _OURS:
            # A template with places for values is constant; one without may have been put together.
            copy.msg = copy.msg if copy.args and isinstance(copy.msg, str) else "(message left out)"
            copy.args = None
        return super().format(copy)

    def formatException(self, info: Any) -> str:  # noqa: N802 - the name that logging calls
        return describe(info[1]) if info[1] is not None else ""


class Enduring(RotatingFileHandler):
    """A private file. A full disk costs lines of the log, and nothing else."""

    def _open(self) -> TextIOWrapper:
        file = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.fchmod(file, 0o600)
        return TextIOWrapper(os.fdopen(file, "ab"), encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Nothing: logging itself would print the record with its values."""


def start_logging(folder: Path, level: str = "info") -> Path:
    """Send every record of this process to `daemon.log` in `folder`; returns the file.

    Without it (a full disk, a folder that cannot be written to) the daemon runs, and says so on stderr.
    """
    path = folder / FILE_NAME
    root = logging.getLogger()
    try:
        handler: logging.Handler = Enduring(path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8")
    except OSError as error:
        print(f"There will be no log: {path} cannot be written: {error.strerror}.", file=sys.stderr)
        handler = logging.NullHandler()
    handler.setFormatter(Careful())
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("engine").setLevel(level.upper())
    for name in _TOO_TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    sys.excepthook = lambda kind, error, trace: log.critical(
        "the daemon ended", exc_info=(kind, error, trace)
    )
    threading.excepthook = lambda args: log.error("a thread failed: %s", describe(args.exc_value))
    return path


def log_unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """asyncio's handler of exceptions that nobody awaited."""
    log.error("background work failed: %s", describe(context.get("exception")))


def describe(error: BaseException | None) -> str:
    """An exception and its causes for the log: kinds and places, no messages."""
    parts, seen = [], set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = traceback.extract_tb(error.__traceback__)
        parts.append(
            type(error).__name__ + "".join(f"\n  {f.filename}:{f.lineno} in {f.name}" for f in frames)
        )
        error = error.__cause__ or error.__context__
    return "\nafter ".join(parts) or "no exception"
