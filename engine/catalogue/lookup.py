"""Find a catalogue entry by name, and a usable file by name or path."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

from engine.catalogue.entries import BUILT_IN
from engine.catalogue.entry import ModelEntry
from engine.catalogue.partial import unfinished_bytes
from engine.catalogue.places import GGUF_MAGIC, candidates, problem, staging_dir
from engine.catalogue.report import SILENT, Reporter, size_text
from engine.catalogue.user import user_entries
from engine.errors import ModelFileError


def all_entries() -> tuple[ModelEntry, ...]:
    """Every model of the catalogue: Hearth's own, then the user's. Raises SettingsError."""
    return (*BUILT_IN, *user_entries())


def find_entry(name: str) -> ModelEntry:
    """The entry of that name. Raises ModelFileError when there is none, SettingsError."""
    entry = _entry_or_none(name)
    if entry is None:
        raise _unknown(name)
    return entry


def resolve(name_or_path: str | Path, folders: Sequence[Path] = (), report: Reporter = SILENT) -> Path:
    """Absolute path of a model file that is safe to load.

    A name of the catalogue gives the first whole copy on this machine: its size and SHA-256 are right (the
    hash is computed once and remembered while the file does not change). A path is accepted when a
    non-empty file that begins like a GGUF is there; nothing is known of its hash.

    folders: where the user keeps models, from a setting, beside those of HEARTH_MODEL_PATH.
    Raises ModelFileError, whose action is the command that mends it; SettingsError.
    """
    text = str(name_or_path)
    entry = None if isinstance(name_or_path, Path) else _entry_or_none(text)
    if entry is not None:
        return _whole_copy(entry, folders, report)
    path = Path(text).expanduser()
    looks_like_path = (
        isinstance(name_or_path, Path) or path.suffix == ".gguf" or os.sep in text or "/" in text
    )
    if not looks_like_path and not path.exists():
        raise _unknown(text)
    require_gguf(path)
    return path.absolute()


def require_gguf(path: Path) -> None:
    """Check that a readable file is there and begins with the GGUF magic. Raises ModelFileError."""
    action = f"Choose a GGUF file, or a model of the catalogue: {_names()}."
    if not path.exists():
        raise ModelFileError(f"There is no model file {path}.", action=action)
    if not path.is_file():
        raise ModelFileError(f"{path} is not a file.", action=action)
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except OSError as error:
        raise ModelFileError(
            f"The model file {path} cannot be read: {error.strerror}.", action="Check its permissions."
        ) from error
    if magic != GGUF_MAGIC:
        what = "is empty" if not magic else "is not a GGUF file"
        raise ModelFileError(f"{path} {what}.", meaning="Hearth loads GGUF files only.", action=action)


def _whole_copy(entry: ModelEntry, folders: Sequence[Path], report: Reporter) -> Path:
    failures = []
    for candidate in candidates(entry, folders):
        reason = problem(entry, candidate.path, lambda done: report.progress("checking", done, entry.bytes))
        if reason is None:
            return candidate.path.absolute()
        failures.append(f"{candidate.path}: {reason}")
    if entry.added_by_user:
        raise ModelFileError(
            f"The model {entry.id} cannot be used: {failures[0] if failures else f'{entry.path} is gone'}.",
            meaning="Hearth loads a file only while it is the one that you added.",
            action=f"Put the file back; or, if you changed it, run `hearth models remove {entry.id} --yes` "
            f"and `hearth models add {entry.id} FILE.gguf`.",
        )
    command = f"Run `hearth models pull {entry.id}`."
    if failures:
        raise ModelFileError(
            f"The model {entry.id} is damaged: {'; '.join(failures)}.",
            meaning="Hearth loads only files that are exactly the published ones.",
            action=command,
        )
    if here := unfinished_bytes(staging_dir(entry)):
        raise ModelFileError(
            f"The model {entry.id} is not complete: {size_text(here)} of {size_text(entry.bytes)} are here.",
            action=f"{command[:-1]}: it goes on from there.",
        )
    raise ModelFileError(
        f"The model {entry.id} is not on this machine.",
        action=f"{command[:-1]} ({size_text(entry.bytes)} to fetch).",
    )


def _entry_or_none(name: str) -> ModelEntry | None:
    # Hearth's own first: they work even when the user's list cannot be read.
    own = next((entry for entry in BUILT_IN if entry.id == name), None)
    return own or next((entry for entry in user_entries() if entry.id == name), None)


def _unknown(name: str) -> ModelFileError:
    known = [entry.id for entry in all_entries()]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return ModelFileError(
        f"There is no model {name!r} in the catalogue.", action=f"{hint}Known models: {', '.join(known)}."
    )


def _names() -> str:
    return ", ".join(entry.id for entry in BUILT_IN)
