"""What `hearth models` tells and changes: states of models, checks, and the user's own entries."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engine.catalogue.digest import checked_sha256, remembered_sha256
from engine.catalogue.entries import DEFAULT_MODEL
from engine.catalogue.entry import ModelEntry
from engine.catalogue.lookup import find_entry, require_gguf
from engine.catalogue.partial import unfinished_bytes
from engine.catalogue.places import Candidate, candidates, known_problem, problem, staging_dir
from engine.catalogue.pull import pulling
from engine.catalogue.report import SILENT, Reporter, size_text
from engine.catalogue.user import is_sha256, make_user_entry, save_user_entries, user_entries
from engine.errors import ModelFileError


class ModelState(StrEnum):
    """Where a model stands on this machine."""

    READY = "ready"  # a copy of the right size, whose hash was right whenever it was computed
    PARTIAL = "partial"  # a download was begun and can go on
    ABSENT = "absent"
    DAMAGED = "damaged"  # only wrong copies are here


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """One row of the list of models.

    path: of the copy that the state speaks of, or "".
    verified: whether this very file's hash has been computed and is right.
    detail: for a person; what is wrong, or how much of a partial download is here.
    """

    id: str
    title: str
    licence: str
    base_repo: str
    bytes: int
    sha256: str
    state: ModelState
    path: str
    default: bool
    added_by_user: bool
    verified: bool
    detail: str


def status_of(entry: ModelEntry, folders: Sequence[Path] = ()) -> ModelStatus:
    """The model's state, from sizes and remembered hashes only: nothing is hashed. Raises SettingsError."""
    found = [(candidate, known_problem(entry, candidate.path)) for candidate in candidates(entry, folders)]
    good = next((candidate for candidate, reason in found if reason is None), None)
    if good is not None:
        verified = remembered_sha256(good.path) == entry.sha256
        return _status(entry, ModelState.READY, good, "" if verified else "not checked yet", verified)
    if here := unfinished_bytes(staging_dir(entry)):
        return _status(entry, ModelState.PARTIAL, None, f"{size_text(here)} of {size_text(entry.bytes)}")
    if found:
        candidate, reason = found[0]
        return _status(entry, ModelState.DAMAGED, candidate, reason or "")
    return _status(entry, ModelState.ABSENT, None, f"{entry.path} is gone" if entry.added_by_user else "")


def verify(entry: ModelEntry, folders: Sequence[Path] = (), report: Reporter = SILENT) -> ModelStatus:
    """Read the model's copies from the disk again and say how it stands now. Raises SettingsError."""
    for candidate in candidates(entry, folders):
        reason = problem(
            entry,
            candidate.path,
            lambda done: report.progress(f"checking {entry.id}", done, entry.bytes),
            reread=True,
        )
        if reason is None:
            return _status(entry, ModelState.READY, candidate, "", verified=True)
    return status_of(entry, folders)


def add(name: str, file: Path, sha256: str | None = None, report: Reporter = SILENT) -> ModelStatus:
    """Enter the user's own GGUF under a name. The file stays where it is; its hash is recorded.

    sha256: what the hash must be, when the user knows it.
    Raises ModelFileError (name taken or unusable, no GGUF, another hash), SettingsError.
    """
    path = file.expanduser().absolute()
    require_gguf(path)
    present = user_entries()
    if name in {entry.id for entry in present}:
        raise ModelFileError(
            f"There is already a model {name}.",
            action=f"Choose another name, or run `hearth models remove {name}` first.",
        )
    make_user_entry(name, path, 0, "")  # a bad name is told before the file is read through
    expected = sha256.strip().lower() if sha256 is not None else None
    if expected is not None and not is_sha256(expected):
        raise ModelFileError(f"{sha256!r} is not a SHA-256.", action="Give 64 hexadecimal digits.")
    try:
        size = path.stat().st_size
        found = checked_sha256(path, lambda done: report.progress("checking", done, size))
    except OSError as error:
        raise ModelFileError(
            f"The model file {path} cannot be read: {error.strerror}.", action="Check its permissions."
        ) from error
    if expected is not None and found != expected:
        raise ModelFileError(
            f"{path} has the SHA-256 {found}, not {expected}.",
            meaning="It is not the file that you meant, or it was damaged on its way; it was not added.",
            action="Fetch the file again, or give its real hash.",
        )
    entry = make_user_entry(name, path, size, found)
    save_user_entries((*present, entry))
    return status_of(entry)


def removable_files(entry: ModelEntry) -> list[Path]:
    """What `remove` would delete: Hearth's own copy and unfinished downloads, never the user's files."""
    owned = [candidate.path for candidate in candidates(entry) if candidate.owned]
    staging = staging_dir(entry)
    return [*owned, staging] if staging.exists() else owned


def remove(name: str) -> list[Path]:
    """Delete Hearth's copy of a model, or forget one that the user added; what was deleted.

    Raises ModelFileError (unknown model, a file that cannot be deleted), HearthError (it is being fetched).
    """
    entry = find_entry(name)
    with pulling(entry, wait=False):
        if entry.added_by_user:
            save_user_entries(tuple(other for other in user_entries() if other.id != entry.id))
        deleted = removable_files(entry)
        try:
            for path in deleted:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        except OSError as error:
            raise ModelFileError(
                f"{error.filename} cannot be deleted: {error.strerror}.",
                action="Check its permissions, or delete it yourself.",
            ) from error
    return deleted


def _status(
    entry: ModelEntry,
    state: ModelState,
    candidate: Candidate | None,
    detail: str,
    verified: bool = False,
) -> ModelStatus:
    return ModelStatus(
        id=entry.id,
        title=entry.title,
        licence=entry.licence,
        base_repo=entry.base_repo,
        bytes=entry.bytes,
        sha256=entry.sha256,
        state=state,
        path=str(candidate.path) if candidate else entry.path,
        default=entry.id == DEFAULT_MODEL,
        added_by_user=entry.added_by_user,
        verified=verified,
        detail=detail,
    )
