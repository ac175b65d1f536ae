"""Workspace folders, and a document's path within them."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote, urlsplit


class Workspace:
    """The folders that the editor has open; there may be none, one or several."""

    def __init__(self, folders: Iterable[str] = ()) -> None:
        self._folders: list[str] = []
        for uri in folders:
            self.add(uri)

    def add(self, uri: str) -> None:
        """Add a folder by URI."""
        if uri not in self._folders:
            self._folders.append(uri)

    def remove(self, uri: str) -> None:
        """Remove a folder by URI; unknown ones are ignored."""
        if uri in self._folders:
            self._folders.remove(uri)

    def relative_path(self, uri: str) -> str:
        """The document's path within its innermost folder, with '/'; "" in no folder, or for no file."""
        path = file_path(uri)
        if path is None:
            return ""
        best = ""
        for folder in self._folders:
            root = (file_path(folder) or "").rstrip("/") + "/"
            if path.startswith(root) and len(root) > len(best):
                best = root
        return path[len(best) :] if best else ""


def file_path(uri: str) -> str | None:
    """The path part of a file URI, decoded, with '/'; None for other schemes (`untitled:`, `git:`)."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # for example an unclosed bracket in the host part
        return None
    return unquote(parts.path) if parts.scheme == "file" else None
