"""Locks between processes, kept by the kernel: whoever holds one loses it by ending, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self


class Lock:
    """An exclusive lock on a file, which is made and never deleted; what is in the file means nothing.

    Raises OSError when the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def take(self) -> None:
        """Wait, without using the processor, until the lock is this process'."""
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def try_take(self) -> bool:
        """Take the lock if nobody holds it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Give the lock back."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
