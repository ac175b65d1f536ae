"""An unfinished download: bytes on disk, hashed as they arrive, with a note of how far it came.

After a stop of any kind (Ctrl-C, power loss, full disk) the same source goes on from the last note.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from engine import paths
from engine.catalogue.digest import CHUNK
from engine.catalogue.jsonfile import read_json, write_json
from engine.catalogue.report import OnBytes, no_progress

_NOTE_EVERY = 64 << 20  # bytes between notes: at most this much is fetched again after a crash
_FULL = {errno.ENOSPC, errno.EDQUOT}


class DiskFullError(Exception):
    """The disk has no room left; what was received so far is kept."""


class TooLongError(Exception):
    """The source gave more bytes than the model has."""


class PartialFile:
    """The first `offset` bytes of a model, received from one source.

    folder: where the file and its note live; belongs to this download alone.
    size: bytes of the whole model; more are refused.
    identity: what the bytes belong to (model hash and source); a note with another identity is void.
    part: for a source that gives the file in parts, the index of the part in progress.
    part_start: offset at which that part begins.
    on_bytes: told, while bytes of an earlier run are hashed again, how many are done.

    Raises OSError when the folder cannot be written.
    """

    def __init__(self, folder: Path, size: int, identity: str, on_bytes: OnBytes = no_progress) -> None:
        self.folder = paths.make_private(folder)
        self.path = folder / "data"
        self.size = size
        self.part, self.part_start, self.offset = 0, 0, 0
        self._identity = identity
        self._note_path = folder / "progress.json"
        # Unbuffered: a full disk is reported by the write that meets it, not by a later close.
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        self._file = os.fdopen(handle, "r+b", buffering=0)
        self._digest = hashlib.sha256()  # of everything so far
        self._part_digest = hashlib.sha256()  # of everything before the part in progress
        self._read_note()
        self._rehash(on_bytes)
        self._noted = self.offset

    def append(self, chunk: bytes) -> None:
        """Write and hash the next bytes. Raises DiskFullError, TooLongError, OSError."""
        if self.offset + len(chunk) > self.size:
            raise TooLongError(f"it gave more than the {self.size:,} bytes of the model")
        view = memoryview(chunk)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            if error.errno in _FULL:
                raise DiskFullError(str(error)) from error
            raise
        self._digest.update(chunk)
        self.offset += len(chunk)
        if self.offset - self._noted >= _NOTE_EVERY:
            self.note()

    def start_part(self, index: int) -> None:
        """Note that everything before part `index` is here."""
        self.part, self.part_start = index, self.offset
        self._part_digest = self._digest.copy()
        self.note()

    def rewind_part(self) -> None:
        """Forget what was appended of the part in progress."""
        self.offset = self.part_start
        self._file.seek(self.offset)
        self._file.truncate()
        self._digest = self._part_digest.copy()
        self.note()

    def restart(self) -> None:
        """Forget every byte and begin anew."""
        self.part, self.part_start = 0, 0
        self._part_digest = hashlib.sha256()
        self.rewind_part()

    def note(self) -> None:
        """Record how far it came. Raises DiskFullError, OSError."""
        record = {
            "identity": self._identity,
            "part": self.part,
            "part_start": self.part_start,
            "offset": self.offset,
        }
        try:
            os.fsync(self._file.fileno())
            write_json(self._note_path, record)
        except OSError as error:
            if error.errno in _FULL:
                raise DiskFullError(str(error)) from error
            raise
        self._noted = self.offset

    def sha256(self) -> str:
        """Hash of the bytes so far."""
        return self._digest.hexdigest()

    def move_to(self, destination: Path) -> None:
        """Put the finished file at its place in one step, durably. Raises OSError."""
        os.fsync(self._file.fileno())
        self._file.close()
        self.path.replace(destination)
        with suppress(OSError):  # not every system can sync a folder; the rename itself is done
            folder = os.open(destination.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def discard(self) -> None:
        """Delete the bytes, the note and whatever the source keeps beside them."""
        self._file.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file.closed:
            return
        with suppress(OSError, DiskFullError):  # where noting fails, the older note stays valid
            if self.offset:
                self.note()
        self._file.close()
        if not self.offset:
            with suppress(OSError):  # the folder stays when the source keeps something in it
                self.path.unlink()
                self._note_path.unlink(missing_ok=True)
                self.folder.rmdir()
                self.folder.parent.rmdir()

    def _read_note(self) -> None:
        try:
            note = read_json(self._note_path)
        except (OSError, ValueError):
            return
        if not isinstance(note, dict) or note.get("identity") != self._identity:
            return
        here = os.fstat(self._file.fileno()).st_size
        part, start, offset = (note.get(key) for key in ("part", "part_start", "offset"))
        if not (isinstance(part, int) and isinstance(start, int) and isinstance(offset, int)):
            return
        if part >= 0 and 0 <= start <= offset <= min(here, self.size):
            self.part, self.part_start, self.offset = part, start, offset

    def _rehash(self, on_bytes: OnBytes) -> None:
        self._file.truncate(self.offset)
        done = 0
        for end in (self.part_start, self.offset):
            while done < end:
                chunk = self._file.read(min(CHUNK, end - done))
                self._digest.update(chunk)
                done += len(chunk)
                on_bytes(done)
            if end == self.part_start:
                self._part_digest = self._digest.copy()


def unfinished_bytes(staging: Path) -> int:
    """The most bytes that any source's unfinished download under `staging` holds."""
    sizes = [0]
    for path in staging.glob("*/data"):
        with suppress(OSError):
            sizes.append(path.stat().st_size)
    return max(sizes)
