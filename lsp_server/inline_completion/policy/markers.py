"""Things that belong to the model's format and never to a document: control markers and code fences."""

from __future__ import annotations

import re

from lsp_server.inline_completion.policy.cursor import Cursor

# Fill-in-the-middle and chat markers of the families that Hearth runs, in case one comes as plain text.
_MARKER = re.compile(
    r"<\|(?:fim_\w+|endoftext|end_of_text|im_start|im_end|repo_name|file_sep|cursor|eot_id)\|>"
    r"|<fim_\w+>|<(?:file_sep|repo_name|EOT|PRE|SUF|MID)>|<\uff5cfim▁\w+\uff5c>|</?think>|\[(?:SUFFIX|PREFIX|MIDDLE)\]"
)
_FENCE = re.compile(r"\s*```[\w+-]*[ \t]*\n")
_FENCE_BEGUN = re.compile(r"\s*(?:`{1,2}|```[\w+-]*[ \t]*)\Z")
_CLOSING_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)


def find_marker(text: str, document: str) -> int | None:
    """Where the first control marker starts, unless the document itself speaks of that marker."""
    return next((found.start() for found in _MARKER.finditer(text) if found.group() not in document), None)


def _fences_are_content(cursor: Cursor) -> bool:
    return cursor.language.prose or bool(cursor.literal)


def opening_fence(text: str, cursor: Cursor) -> int:
    """Length of the code fence that a suggestion begins with; 0 for none, and where fences are content."""
    match = None if _fences_are_content(cursor) else _FENCE.match(text)
    return match.end() if match else 0


def may_open_fence(text: str, cursor: Cursor) -> bool:
    """Whether `text` so far could become an opening fence."""
    return not _fences_are_content(cursor) and bool(_FENCE_BEGUN.match(text))


def closing_fence(body: str) -> int | None:
    """Where the fence that ends `body` starts."""
    match = _CLOSING_FENCE.search(body)
    return match.start() if match else None


def strip_fence(text: str, cursor: Cursor) -> str:
    """Without the pair of fences round a suggestion, and without what follows the closing one."""
    start = opening_fence(text, cursor)
    return text[start:][: closing_fence(text[start:])] if start else text
