"""Model files, for the language server and the command line: names and paths in, checked files out.

Every function works on this machine's files and may block: for as long as a download takes (`pull`) or a
first hash (`resolve`, `add`, `verify`). Call them from a worker thread where that matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.catalogue import pull as _pull
from engine.catalogue import status as _status
from engine.catalogue.entries import DEFAULT_MODEL
from engine.catalogue.lookup import all_entries, find_entry, resolve
from engine.catalogue.report import SILENT, Reporter
from engine.catalogue.status import ModelState, ModelStatus, add, remove

__all__ = [
    "DEFAULT_MODEL",
    "ModelState",
    "ModelStatus",
    "Reporter",
    "add",
    "list_models",
    "pull",
    "remove",
    "resolve",
    "verify",
    "what_remove_deletes",
]


def list_models(folders: Sequence[Path] = ()) -> list[ModelStatus]:
    """Every model of the catalogue and its state; instant, nothing is hashed. Raises SettingsError."""
    return [_status.status_of(entry, folders) for entry in all_entries()]


def pull(
    name: str = DEFAULT_MODEL, *, folders: Sequence[Path] = (), report: Reporter = SILENT
) -> ModelStatus:
    """Have the model's whole, checked file on this machine, fetching it when it is not.

    Stopping it at any moment is safe: the next pull goes on. Raises DownloadError, ModelFileError
    (unknown name), SettingsError.
    """
    entry = find_entry(name)
    _pull.pull(entry, folders=folders, report=report)
    return _status.status_of(entry, folders)


def verify(name: str, *, folders: Sequence[Path] = (), report: Reporter = SILENT) -> ModelStatus:
    """Hash the model's file again, whatever is remembered of it. Raises ModelFileError, SettingsError."""
    return _status.verify(find_entry(name), folders, report)


def what_remove_deletes(name: str) -> list[Path]:
    """The files and folders that `remove` would delete. Raises ModelFileError, SettingsError."""
    return _status.removable_files(find_entry(name))
