"""Where a model's file may already be on this machine, and whether the file there is the right one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants as hub_constants

from engine import paths
from engine.catalogue.digest import checked_sha256, computed_sha256, remembered_sha256
from engine.catalogue.entry import HubFile, ModelEntry
from engine.catalogue.report import OnBytes, no_progress, size_text

GGUF_MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that by its name should be the model. Only an `owned` one may be deleted by Hearth."""

    path: Path
    place: str
    owned: bool = False


def store_path(entry: ModelEntry) -> Path:
    """Where Hearth keeps the model's file once it is fetched and checked."""
    return paths.models_dir(create=False) / entry.file


def staging_dir(entry: ModelEntry) -> Path:
    """Where unfinished downloads of the model are kept, one folder a source."""
    return paths.models_dir(create=False) / ".staging" / entry.id


def candidates(entry: ModelEntry, folders: Sequence[Path] = ()) -> Iterator[Candidate]:
    """Existing files that may be the model: Hearth's own, then the user's folders, then the hub's cache.

    folders: further folders, from a setting, looked at before those of HEARTH_MODEL_PATH.
    """
    for candidate in _possible(entry, folders):
        if candidate.path.is_file():
            yield candidate


def problem(
    entry: ModelEntry,
    path: Path,
    on_bytes: OnBytes = no_progress,
    *,
    reread: bool = False,
) -> str | None:
    """Why the file is not the model, in words, or None when size and SHA-256 are right.

    The hash is computed once and remembered; `reread` computes it again from the disk.
    """
    try:
        if wrong_size := _wrong_size(entry, path):
            return wrong_size
        hash_file = computed_sha256 if reread else checked_sha256
        return _wrong_hash(entry, hash_file(path, on_bytes))
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def known_problem(entry: ModelEntry, path: Path) -> str | None:
    """Like `problem`, from the file's size and a remembered hash only: instant, but may not know."""
    try:
        remembered = remembered_sha256(path)
        return _wrong_size(entry, path) or (_wrong_hash(entry, remembered) if remembered else None)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def _possible(entry: ModelEntry, folders: Sequence[Path]) -> Iterator[Candidate]:
    if entry.added_by_user:
        yield Candidate(Path(entry.path), "your file")
        return
    yield Candidate(store_path(entry), "Hearth's models folder", owned=True)
    hub_files = [source for source in entry.sources if isinstance(source, HubFile)]
    names = dict.fromkeys([entry.file, *(source.file for source in hub_files)])
    for folder in (*folders, *paths.model_folders()):
        for name in names:
            yield Candidate(folder / name, f"folder {folder}")
    for source in hub_files:
        snapshots = Path(hub_constants.HF_HUB_CACHE, "models--" + source.repo.replace("/", "--"), "snapshots")
        for path in sorted(snapshots.glob(f"*/{source.file}")):
            yield Candidate(path, "the Hugging Face cache")


def _wrong_size(entry: ModelEntry, path: Path) -> str | None:
    size = path.stat().st_size
    if size == entry.bytes:
        return None
    return f"it has {size:,} bytes ({size_text(size)}) where the model has {entry.bytes:,}"


def _wrong_hash(entry: ModelEntry, sha256: str) -> str | None:
    if sha256 == entry.sha256:
        return None
    return f"its SHA-256 is {sha256} where the model's is {entry.sha256}"
