"""The folder of KV chunks: one file a chunk, written in one step, checked when read.

Several processes may share the folder. None relies on a file being there, and none changes one that has its
name: files only appear whole and disappear. They hold what the model made of source text, so they are the
user's alone.
"""

from __future__ import annotations

import os
import stat
import struct
import tempfile
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.errors import SettingsError
from engine.generation.chunk_keys import KEY_BYTES

MAGIC = b"HEARTHKV"
VERSION = 1
HEADER = struct.Struct(f"<8sI{KEY_BYTES}sQ32s")  # magic, version, key, payload bytes, checksum
SUFFIX = ".kv"
TEMPORARY = ".new"
ABANDONED_SECONDS = 3600.0  # a temporary file of this age belongs to no living write

# Deletion goes on until this share of the limit is left, so that it is not needed at every write.
TRIM_TO = 0.9

# A chunk is useless without those before it, so it is dated a little earlier for each of them and goes first.
DEPTH_NS = 1_000_000


class ChunkFiles:
    """Chunks by key; a file's modification time is when it was last of use.

    limit: the most bytes that all files together may take, whatever models they belong to.
    Raises SettingsError when the folder is not a private one of this user.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        _make_private(folder)
        self.bytes = 0
        """Size of all files when last looked at, and what this process wrote since."""

    def scan(self) -> set[bytes]:
        """Keys of the files that are there; what a broken-off write left is deleted. Raises OSError."""
        return {key for _, _, key in self._list()}

    def make_anew(self) -> set[bytes]:
        """Make the folder again when somebody has deleted it; keys of the files that are there.

        Raises SettingsError, OSError.
        """
        _make_private(self._folder)
        return self.scan()

    def read(self, key: bytes, payload_bytes: int) -> NDArray[np.uint8] | None:
        """The chunk's bytes, shape (payload_bytes,).

        None when there is no such file, or when it is not what was written under that key: then it is
        deleted.
        """
        path = self._path(key)
        try:
            with path.open("rb") as file:
                header = file.read(HEADER.size)
                payload = np.empty(payload_bytes, np.uint8)
                whole = file.readinto(payload.data) == payload_bytes and not file.read(1)
        except FileNotFoundError:
            return None
        except OSError:
            whole, header, payload = False, b"", np.empty(0, np.uint8)
        if whole and header == _header(key, payload.data):
            return payload
        _delete(path)
        return None

    def write(self, key: bytes, payload: memoryview) -> None:
        """Put a chunk into the folder: all of it or nothing. Raises OSError, as when the disk is full."""
        handle, temporary = tempfile.mkstemp(dir=self._folder, suffix=TEMPORARY)  # with mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_header(key, payload))
                file.write(payload)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self._path(key))
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise
        self.bytes += HEADER.size + len(payload)

    def touch(self, key: bytes, depth: int) -> None:
        """Count a chunk as used now. depth: how many chunks come before it."""
        when = time.time_ns() - depth * DEPTH_NS
        with suppress(OSError):
            os.utime(self._path(key), ns=(when, when))

    def trim(self) -> set[bytes] | None:
        """Keep the limit: delete the files that were of use longest ago. Raises OSError.

        Returns the keys that are left, None when there was nothing to do.
        """
        if self.bytes <= self._limit:
            return None
        files = sorted(self._list())
        for _, size, key in files:
            if self.bytes <= TRIM_TO * self._limit:
                break
            _delete(self._path(key))
            self.bytes -= size
        return self.scan()

    def purge(self) -> int:
        """Delete every chunk; returns how many bytes that freed. Raises OSError."""
        freed = sum(size for _, size, _ in self._list(abandoned=0.0))
        for key in self.scan():
            _delete(self._path(key))
        self.bytes = 0
        return freed

    def _list(self, abandoned: float = ABANDONED_SECONDS) -> list[tuple[int, int, bytes]]:
        """Time, size and key of each file; `bytes` is counted anew."""
        files = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(OSError):  # gone meanwhile
                    status = entry.stat(follow_symlinks=False)
                    if not stat.S_ISREG(status.st_mode):
                        continue
                    if entry.name.endswith(TEMPORARY) and time.time() - status.st_mtime >= abandoned:
                        _delete(Path(entry.path))
                    elif key := _key(entry.name):
                        files.append((status.st_mtime_ns, status.st_size, key))
        self.bytes = sum(size for _, size, _ in files)
        return files

    def _path(self, key: bytes) -> Path:
        return self._folder / (key.hex() + SUFFIX)


def _delete(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _header(key: bytes, payload: memoryview) -> bytes:
    checksum = blake2b(key, digest_size=32)
    checksum.update(payload)
    return HEADER.pack(MAGIC, VERSION, key, len(payload), checksum.digest())


def _key(name: str) -> bytes | None:
    """The key that a file is named after; None for other names."""
    stem = name.removesuffix(SUFFIX)
    if stem == name or len(stem) != 2 * KEY_BYTES:
        return None
    try:
        key = bytes.fromhex(stem)
    except ValueError:
        return None
    return key if key.hex() == stem else None


def _make_private(folder: Path) -> None:
    """Who can write to the folder can put words into the model's mouth, so nobody else may."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(20, "it is not a folder")
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            raise PermissionError(1, "it belongs to another user")
        folder.chmod(0o700)
    except OSError as error:
        raise SettingsError(
            f"The folder {folder} cannot hold the KV cache: {error.strerror}.",
            meaning="The cache is kept in memory alone.",
            action="Remove what is there, or choose another folder for Hearth's caches.",
        ) from error
