"""What a place to fetch a model from must offer."""

from __future__ import annotations

from typing import Protocol

from engine.catalogue.partial import PartialFile
from engine.catalogue.report import Reporter


class SourceError(Exception):
    """This source cannot give the model; the text says why, to a person. Another source may."""


class Source(Protocol):
    """A place to fetch one model from.

    kind: short name, also of the folder that keeps its unfinished download.
    label: what people call it.
    spare_bytes: room that it needs on the disk beside the model itself.
    """

    @property
    def kind(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def spare_bytes(self) -> int: ...

    def fetch(self, target: PartialFile, report: Reporter) -> None:
        """Append the bytes from `target.offset` on, to the end.

        Raises SourceError when the source fails; DiskFullError, TooLongError and OSError pass through
        from `target`. Whatever was appended by then is kept for the next run.
        """
        ...
