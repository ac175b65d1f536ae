"""The server's log: a rotated file per process, for people, without a word of the user's source text."""

from __future__ import annotations

import logging
import os
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path

from engine.errors import HearthError

MAX_BYTES = 1_000_000
BACKUPS = 1
KEPT_FILES = 10  # of earlier processes


def start_logging(folder: Path, level: str = "info") -> Path:
    """Send the records of `lsp_server` and `engine` to a file in `folder`; returns the file.

    Each process has its own file, since rotation by two at once would lose lines. pygls is silenced: its
    records hold whole messages, and so the user's text.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _drop_old(folder)
    path = folder / f"lsp-{os.getpid()}.log"
    handler = RotatingFileHandler(path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("lsp_server", "engine"):
        logger = logging.getLogger(name)
        logger.setLevel(level.upper())
        logger.addHandler(handler)
        logger.propagate = False
    silence_pygls()
    return path


def silence_pygls() -> None:
    """Keep message bodies out of any log, whoever configures logging later."""
    logger = logging.getLogger("pygls")
    logger.setLevel(logging.CRITICAL + 1)
    logger.propagate = False


def describe(error: BaseException) -> str:
    """An exception for the log: type and stack; its message only if it is ours, others may quote text."""
    words = str(error) if isinstance(error, HearthError) else "message left out, it may quote source text"
    frames = traceback.extract_tb(error.__traceback__)
    stack = "".join(f"\n  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames)
    return f"{type(error).__name__} ({words}){stack}"


def _drop_old(folder: Path) -> None:
    files = sorted(folder.glob("lsp-*.log*"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[KEPT_FILES:]:
        file.unlink(missing_ok=True)
