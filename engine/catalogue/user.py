"""The models that the user added: a small file in the data folder that points at the user's own files."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

from engine import paths
from engine.catalogue.entries import BUILT_IN
from engine.catalogue.entry import ModelEntry
from engine.catalogue.jsonfile import read_json, write_json
from engine.errors import ModelFileError, SettingsError

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_STORED = ("id", "path", "bytes", "sha256")


def user_entries() -> tuple[ModelEntry, ...]:
    """The models that the user added, by name. Raises SettingsError when their file is unreadable."""
    path = _catalogue_path()
    try:
        records = read_json(path)
        entries = [] if records is None else [_entry(record) for record in _as_list(records)]
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"The list of models that you added, {path}, cannot be read: {error}.",
            meaning="The models that come with Hearth still work.",
            action="Mend the file, or delete it and add your models again.",
        ) from error
    return tuple(sorted(entries, key=lambda entry: entry.id))


def save_user_entries(entries: tuple[ModelEntry, ...]) -> None:
    """Replace the list of the user's models. Raises SettingsError."""
    paths.data_dir()
    path = _catalogue_path()
    try:
        write_json(path, [{key: asdict(entry)[key] for key in _STORED} for entry in entries])
    except OSError as error:
        raise SettingsError(
            f"The list of your models, {path}, cannot be written: {error.strerror}.",
            action="Check the folder's permissions and free space.",
        ) from error


def make_user_entry(name: str, path: Path, size: int, sha256: str) -> ModelEntry:
    """An entry for the user's own file. Raises ModelFileError for a name that cannot be used."""
    if not _NAME.fullmatch(name):
        raise ModelFileError(
            f"{name!r} cannot be the name of a model.",
            action="Use small letters, digits, '.', '_' and '-', beginning with a letter or digit.",
        )
    if name in {entry.id for entry in BUILT_IN}:
        raise ModelFileError(
            f"{name} is the name of a model that comes with Hearth.", action="Choose another name."
        )
    return ModelEntry(
        id=name,
        title=path.name,
        licence="",
        base_repo="",
        file=path.name,
        bytes=size,
        sha256=sha256,
        path=str(path),
    )


def is_sha256(text: str) -> bool:
    """Whether the text is a SHA-256 in small hexadecimal digits."""
    return bool(_SHA256.fullmatch(text))


def _catalogue_path() -> Path:
    return paths.data_dir(create=False) / "user_models.json"


def _as_list(records: object) -> list[object]:
    if not isinstance(records, list):
        raise ValueError("it is not a list of models")
    return records


def _entry(record: object) -> ModelEntry:
    if not isinstance(record, dict):
        raise ValueError("an item is not a model")
    types = {"id": str, "path": str, "bytes": int, "sha256": str}
    for key, kind in types.items():
        if not isinstance(record.get(key), kind):
            raise ValueError(f"a model lacks {key!r}, or it is not of type {kind.__name__}")
    try:
        return make_user_entry(record["id"], Path(record["path"]), record["bytes"], record["sha256"])
    except ModelFileError as error:
        raise ValueError(error.what) from error
