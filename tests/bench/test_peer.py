"""Fetching the speed peer: only the pinned archive is unpacked, and only its libraries are taken out."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from bench.peer import PeerError, unpack


def make_archive(path: Path, files: dict[str, bytes]) -> str:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_takes_the_libraries_and_nothing_else(tmp_path: Path) -> None:
    files = {
        "package/bins/linux-x64/libllama.so": b"elf",
        "package/bins/linux-x64/../../../escape.so": b"lands in the folder too",
        "package/dist/index.js": b"code",
        "escape": b"no",
    }
    digest = make_archive(tmp_path / "a.tgz", files)
    unpack(tmp_path / "a.tgz", tmp_path / "out", digest)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["escape.so", "libllama.so"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tgz", "out"]


def test_refuses_another_archive(tmp_path: Path) -> None:
    make_archive(tmp_path / "a.tgz", {"package/bins/linux-x64/libllama.so": b"elf"})
    with pytest.raises(PeerError, match="not unpacked"):
        unpack(tmp_path / "a.tgz", tmp_path / "out")
    assert not (tmp_path / "out").exists()
