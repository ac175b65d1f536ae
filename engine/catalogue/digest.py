"""SHA-256 of model files, and the memory of those already computed.

Hashing a gigabyte takes seconds, so a file is hashed once and again only when its size, modification
time or inode changes. The memory is a cache: when it is lost or unreadable, files are hashed again.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from engine import paths
from engine.catalogue.jsonfile import read_json, write_json
from engine.catalogue.report import OnBytes, no_progress
from engine.errors import HearthError

CHUNK = 1 << 20


def sha256_file(path: Path, on_bytes: OnBytes = no_progress) -> str:
    """Hash a file in steps of 1 MiB, telling `on_bytes` how many bytes are done. Raises OSError."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            on_bytes(done)
    return digest.hexdigest()


def remembered_sha256(path: Path) -> str | None:
    """The hash found when this very file (same size, time and inode) was last read, if it was."""
    try:
        record = _load().get(os.path.realpath(path))
        return str(record[-1]) if record and record[:-1] == _fingerprint(path) else None
    except OSError:
        return None


def checked_sha256(path: Path, on_bytes: OnBytes = no_progress) -> str:
    """The file's hash: remembered when possible, computed and remembered otherwise. Raises OSError."""
    return remembered_sha256(path) or computed_sha256(path, on_bytes)


def computed_sha256(path: Path, on_bytes: OnBytes = no_progress) -> str:
    """The file's hash, read from the disk now, and remembered. Raises OSError."""
    before = _fingerprint(path)
    sha256 = sha256_file(path, on_bytes)
    if _fingerprint(path) == before:
        remember(path, sha256)
    return sha256


def remember(path: Path, sha256: str) -> None:
    """Note the hash of a file as it is now. Two writers at once may lose a note, never corrupt one."""
    with suppress(OSError, HearthError):
        records = {name: record for name, record in _load().items() if Path(name).exists()}
        records[os.path.realpath(path)] = [*_fingerprint(path), sha256]
        write_json(paths.state_dir() / "verified.json", records)


def _fingerprint(path: Path) -> list[int | str]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _load() -> dict[str, list[int | str]]:
    try:
        records = read_json(paths.state_dir(create=False) / "verified.json")
    except (OSError, ValueError):
        return {}
    if not isinstance(records, dict):
        return {}
    return {name: record for name, record in records.items() if isinstance(record, list) and len(record) == 4}
