"""Which documents get completions, and in plain words why others do not."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from lsp_server.documents.encoding import PositionEncoding
from lsp_server.documents.store import Snapshot
from lsp_server.settings import Settings


def why_excluded(snapshot: Snapshot, path: str, settings: Settings) -> str:
    """One sentence, or "" when the document gets completions. `path` is relative to the workspace, or ""."""
    if not settings.enabled:
        return "Hearth is switched off by hearth.enabled."
    if not settings.languages.get(snapshot.language_id, True):
        return f"Completions for {snapshot.language_id} are switched off by hearth.languages."
    for pattern in settings.exclude:
        if path and _matches(path, pattern):
            return f"This file is excluded by hearth.exclude ({pattern})."
    size = snapshot.buffer.size_in(PositionEncoding.UTF8)
    if size > settings.maxFileBytes:
        return f"This file has {size} bytes, more than hearth.maxFileBytes ({settings.maxFileBytes})."
    if snapshot.buffer.holds_nul:
        return "This file is binary (it holds NUL characters)."
    return ""


def _matches(path: str, pattern: str) -> bool:
    """Glob as editors write it: `*` within a name, `**/` any folders; without '/', the file's name alone."""
    if "/" not in pattern:
        return fnmatchcase(PurePosixPath(path).name, pattern)
    return _parts_match(path.split("/"), pattern.split("/"))


def _parts_match(path: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_parts_match(path[skip:], pattern[1:]) for skip in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and _parts_match(path[1:], pattern[1:])
