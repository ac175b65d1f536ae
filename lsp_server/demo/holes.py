"""The sample projects and the places in them that are left to be completed (samples/holes.toml)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.errors import HearthError

_LANGUAGES = {".py": "python", ".ts": "typescript", ".rs": "rust"}


class SampleError(HearthError):
    """The sample projects are not there, or holes.toml does not fit them."""

    code = "samples"


@dataclass(frozen=True, slots=True)
class Hole:
    """A file of a sample project without one piece of its code.

    path: the file; name: the same, relative to the samples folder.
    before, after: its text up to the cursor and from there on.
    removed: what stood between them. hints: words that a good suggestion is likely to hold.
    """

    path: Path
    name: str
    title: str
    language: str
    before: str
    after: str
    removed: str
    hints: tuple[str, ...]

    @property
    def line(self) -> int:
        """The cursor's line, from 0."""
        return self.before.count("\n")


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    file: str
    title: str
    remove: Annotated[str, Field(min_length=1)]
    hints: tuple[str, ...]


class _HolesFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    hole: Annotated[tuple[_Entry, ...], Field(min_length=1)]


def default_folder() -> Path:
    """The samples folder that comes with Hearth, installed or in the source tree."""
    return Path(str(resources.files("lsp_server.demo") / "samples"))


def load_holes(folder: Path) -> list[Hole]:
    """The holes of a samples folder, in the file's order. Raises SampleError."""
    listing = folder / "holes.toml"
    try:
        entries = _HolesFile.model_validate(tomllib.loads(listing.read_text(encoding="utf-8"))).hole
    except OSError as error:
        raise SampleError(
            f"The sample projects cannot be read: {listing}: {error.strerror}.",
            action="Install Hearth anew, or name another folder of samples with --samples.",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError) as error:
        raise SampleError(f"{listing} is not a list of holes: {error}") from error
    return [_cut(folder, entry) for entry in entries]


def _cut(folder: Path, entry: _Entry) -> Hole:
    path = (folder / entry.file).resolve()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SampleError(f"The sample file {path} cannot be read: {error}.") from error
    if (count := text.count(entry.remove)) != 1:
        raise SampleError(f'"{entry.remove}" occurs {count} times in {path}; a hole must occur exactly once.')
    before, after = text.split(entry.remove)
    language = _LANGUAGES.get(path.suffix, "plaintext")
    return Hole(path, entry.file, entry.title, language, before, after, entry.remove, entry.hints)
