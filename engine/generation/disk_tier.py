"""The second tier of the prefix cache: chunks of KV pages in files, so that a restart starts warm.

The engine thread only copies pages out of the pool and into it; one thread hashes and writes, another reads
and checks. Whatever goes wrong with the disk, requests are served as if it were not there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from engine import paths
from engine.backends.base import KvPages
from engine.catalogue.digest import checked_sha256
from engine.errors import HearthError
from engine.generation.chunk_files import ChunkFiles
from engine.generation.chunk_keys import CHUNK_PAGES, Layout, chunk_keys

log = logging.getLogger(__name__)

QUEUE_BYTES = 64 << 20
"""Copies that wait to be written; what comes beyond that is not saved, or later."""

READ_AHEAD = 4
"""Chunks that are read before the engine thread takes them."""

RETRY_SECONDS = 60.0
"""After so long a disk that took nothing is tried again: it may have been full for a moment only."""

# Other processes' files are noticed after so many writes of our own.
RESCAN_WRITES = 64

Pages = NDArray[np.uint8]


def kv_folder(*, create: bool = True) -> Path:
    """Where chunks of all models lie. Raises SettingsError."""
    return paths.cache_dir(create=create) / "kv"


def purge(folder: Path | None = None) -> int:
    """Delete every chunk on the disk; returns how many bytes that freed. Raises SettingsError, OSError.

    A running engine notices, and goes on from its memory.
    """
    folder = folder or kv_folder(create=False)
    return ChunkFiles(folder, 0).purge() if folder.exists() else 0


@dataclass(frozen=True, slots=True)
class DiskRoom:
    """What the tier may use.

    limit: the most bytes that all models' chunks take on the disk; 0 for no tier.
    folder: made when it is not there, and then the user's alone; None is the user's cache.
    """

    limit: int = 4 << 30
    folder: Path | None = None


DISK = DiskRoom()


def open_disk_tier(model: Path, pages: KvPages | None, disk: DiskRoom = DISK) -> DiskTier | None:
    """The disk tier for a model that was just loaded from its file.

    Returns at once; the tier opens when the file's content hash is known, which takes seconds the first time.
    None where the back end has no pages to copy, where the file is gone, or with a limit of 0.
    """
    loaded = _version(model)
    if pages is None or loaded is None or disk.limit == 0:
        return None

    def content() -> str:
        sha256 = checked_sha256(model)
        if _version(model) != loaded:
            raise OSError(0, f"{model.name} has changed since it was loaded")
        return sha256

    return DiskTier(pages, content, lambda: disk.folder or kv_folder(), disk.limit)


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


@dataclass(frozen=True, slots=True)
class DiskMetrics:
    """Counts since the start, in chunks, and the state of the folder.

    state: "opening", "ready", "read-only" (writing has failed, and is tried again after a while) or "off" (it
        could not be opened).
    message: for a person; why it is not ready.
    dropped: chunks that were not saved because the disk was too slow.
    """

    state: str = "off"
    message: str = ""
    bytes: int = 0
    reads: int = 0
    read_failures: int = 0
    writes: int = 0
    write_failures: int = 0
    dropped: int = 0


class Restore:
    """Chunks on their way from the disk to one sequence, in order. Made by `DiskTier.restore`."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = keys
        self._arrived: deque[Pages] = deque()
        self._room = threading.Semaphore(READ_AHEAD)
        self._left = len(keys)
        self._ended = False
        self.cancelled = False

    def take(self) -> Pages | None:
        """The next chunk, shape (CHUNK_PAGES, page_bytes); None when none has arrived."""
        if not self._arrived:
            return None
        pages = self._arrived.popleft()
        self._left -= 1
        self._room.release()
        return pages

    @property
    def complete(self) -> bool:
        """Whether `take` gave every chunk."""
        return self._left == 0

    @property
    def ended(self) -> bool:
        """Whether `take` will never give a chunk again."""
        return self._ended and not self._arrived

    def cancel(self) -> None:
        """No more chunks are wanted."""
        self.cancelled = True
        self._room.release()

    def run(self, read: Callable[[bytes], Pages | None], wake: Callable[[], None]) -> None:
        """On the reading thread: until all are read, one is missing, or nobody wants them."""
        try:
            for key in self._keys:
                self._room.acquire()
                pages = None if self.cancelled else read(key)
                if pages is None:
                    return
                self._arrived.append(pages)
                wake()
        finally:
            self._ended = True
            wake()


@dataclass(frozen=True, slots=True)
class _Write:
    """Chunks of a sequence, all of which count as used, and the last one's pages if it is to be written."""

    keys: Sequence[bytes]
    pages: Pages | None


class DiskTier:
    """Used from the engine thread, `close` included.

    pages: of the backend; only its sizes are read here.
    content: the SHA-256 of the model's file; called on the writing thread. Raises OSError.
    folder: gives the folder, which may be made; called on the writing thread. Raises SettingsError.
    wake: set by the owner; called on other threads when something has changed that it may wait for.
    lost: how many chunks were taken by `save`, and then not written because the disk failed.
    """

    def __init__(
        self,
        pages: KvPages,
        content: Callable[[], str],
        folder: Callable[[], Path],
        limit: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.chunk_tokens = CHUNK_PAGES * pages.page_tokens
        self.wake: Callable[[], None] = lambda: None
        self.lost = 0
        self._shape = (CHUNK_PAGES, pages.page_bytes)
        self._chunk_bytes = CHUNK_PAGES * pages.page_bytes
        self._layout = (pages.kv_format, pages.page_tokens, pages.page_bytes)
        self._content = content
        self._folder = folder
        self._limit = limit
        self._clock = clock
        self._retry_at = 0.0
        self._root: bytes | None = None
        self._files: ChunkFiles | None = None
        # What is on the disk as far as we know: a wrong entry costs a read that fails, a missing one a write.
        self._known: set[bytes] = set()
        self._queued: set[bytes] = set()
        self._state, self._message = "opening", ""
        self._reads = self._read_failures = self._writes = self._write_failures = self._dropped = 0
        self._written = threading.Event()
        self._to_write: SimpleQueue[_Write | None] = SimpleQueue()
        self._to_read: SimpleQueue[Restore | None] = SimpleQueue()
        self._reader = threading.Thread(target=self._read_all, name="hearth-kv-reader", daemon=True)
        self._writer = threading.Thread(target=self._write_all, name="hearth-kv-writer", daemon=True)
        self._writer.start()

    @property
    def writable(self) -> bool:
        """Whether `save` may do anything."""
        return self._state == "ready" or (self._state == "read-only" and self._clock() >= self._retry_at)

    @property
    def has_room(self) -> bool:
        """Whether another chunk can wait to be written."""
        return (len(self._queued) + 1) * self._chunk_bytes <= max(QUEUE_BYTES, self._chunk_bytes)

    @property
    def settled(self) -> bool:
        """Whether everything that was saved has been written, or has failed."""
        return not self._queued

    def metrics(self) -> DiskMetrics:
        """The state now."""
        return DiskMetrics(
            state=self._state,
            message=self._message,
            bytes=self._files.bytes if self._files is not None else 0,
            reads=self._reads,
            read_failures=self._read_failures,
            writes=self._writes,
            write_failures=self._write_failures,
            dropped=self._dropped,
        )

    def keys(self, tokens: NDArray[np.int32]) -> list[bytes]:
        """Keys of the sequence's whole chunks; none until the tier is open."""
        return chunk_keys(self._root, tokens, self.chunk_tokens) if self._root is not None else []

    def has(self, key: bytes) -> bool:
        """Whether the chunk is on the disk, or on its way there."""
        return key in self._known or key in self._queued

    def known(self, keys: Sequence[bytes]) -> int:
        """How many of the first keys are on the disk without a gap."""
        return next((n for n, key in enumerate(keys) if key not in self._known), len(keys))

    def save(self, keys: Sequence[bytes], index: int, copy: Callable[[], Pages]) -> None:
        """Have a chunk written some time soon, unless it is there already or too many wait.

        keys: of its sequence's chunks. copy: gives its pages; called now or never.
        """
        key = keys[index]
        if not self.writable or self.has(key):
            return
        if not self.has_room:
            self._dropped += 1
            return
        self._queued.add(key)
        self._to_write.put(_Write(keys[: index + 1], copy()))

    def touch(self, keys: Sequence[bytes]) -> None:
        """Count the first chunks of a sequence as used now."""
        if self.writable:
            self._to_write.put(_Write(keys, None))

    def restore(self, keys: Sequence[bytes]) -> Restore:
        """Start to read chunks."""
        restore = Restore(keys)
        self._to_read.put(restore)
        return restore

    def wait_for_room(self, seconds: float) -> None:
        """Wait until something has been written, if there is no room."""
        self._written.clear()
        if not self.has_room:
            self._written.wait(seconds)

    def close(self, seconds: float) -> None:
        """Write what waits, for at most so long, and end the threads."""
        self._to_read.put(None)
        self._to_write.put(None)
        if not self.settled:
            self._writer.join(seconds)

    def _open(self) -> None:
        try:
            root = Layout(self._content(), *self._layout).root_key()
            files = ChunkFiles(self._folder(), self._limit)
            self._known = files.scan()
        except (HearthError, OSError) as error:
            self._state, self._message = "off", f"The KV cache is kept in memory alone: {error}"
            log.warning("The KV cache on the disk could not be opened (%s)", type(error).__name__)
            return
        self._files, self._root, self._state = files, root, "ready"
        self._reader.start()
        self.wake()

    def _write_all(self) -> None:
        self._open()
        while (item := self._to_write.get()) is not None:
            try:
                if self._files is not None and self.writable:
                    self._write(self._files, item)
                elif item.pages is not None:
                    self.lost += 1
            except (HearthError, OSError) as error:
                self._failed(error)
            finally:
                if item.pages is not None:
                    self._queued.discard(item.keys[-1])
                self._written.set()
                self.wake()

    def _failed(self, error: HearthError | OSError) -> None:
        reason = error.strerror if isinstance(error, OSError) else error.what.rstrip(".")
        self.lost += 1
        self._write_failures += 1
        self._retry_at = self._clock() + RETRY_SECONDS
        self._state, self._message = (
            "read-only",
            f"The KV cache is not saved to the disk now: {reason or error}. "
            f"That is tried again every {RETRY_SECONDS:.0f} s.",
        )
        log.warning("The KV cache on the disk takes nothing now (%s)", type(error).__name__)

    def _write(self, files: ChunkFiles, item: _Write) -> None:
        if item.pages is not None:
            payload = item.pages.reshape(-1).data
            try:
                files.write(item.keys[-1], payload)
            except FileNotFoundError:
                self._known = files.make_anew()
                self.lost += 1  # all that was in the folder
                files.write(item.keys[-1], payload)
            if self._state == "read-only":
                self._state, self._message = "ready", ""
                log.info("The KV cache is saved to the disk again")
        # What a chunk stands on must not be older than it, or it would be deleted first.
        for depth, key in enumerate(item.keys):
            files.touch(key, depth)
        if item.pages is None:
            return
        self._known.add(item.keys[-1])
        self._writes += 1
        left = files.trim()
        if left is None and self._writes % RESCAN_WRITES == 0:
            left = files.scan()
        if left is not None:
            self._known = left

    def _read_all(self) -> None:
        while (restore := self._to_read.get()) is not None:
            restore.run(self._read, self.wake)

    def _read(self, key: bytes) -> Pages | None:
        assert self._files is not None  # noqa: S101 - the thread starts when it is there
        payload = self._files.read(key, self._chunk_bytes)
        if payload is None:
            self._read_failures += 1
            self._known.discard(key)
            return None
        self._reads += 1
        return payload.reshape(self._shape)
