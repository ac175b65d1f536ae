"""What the LSP half and the policy half of inline completion say to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from engine.types import ContextFile

# What a question shows of a document, at the least. The rules look no further, so that a key costs the same
# in a file of any size: the windows of line_ends, in which every character may be half of a CRLF, and a line.
SIGHT_BEFORE = 50_000
SIGHT_AFTER = 18_000
ModeSetting = Literal["auto", "single", "multi"]


@dataclass(frozen=True)
class Selected:
    """The entry chosen in the editor's completion list (LSP selectedCompletionInfo).

    start, end: the range it would replace, code-point offsets into the question's text.
    text: what it would put there.
    """

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Question:
    """One request for inline completion, on an immutable snapshot of its document.

    text: the document, or SIGHT_BEFORE characters before the cursor and SIGHT_AFTER behind it; line ends may
        be LF, CRLF or CR.
    offset: the cursor, in code points into text.
    skipped: characters of the document before text, each CRLF counted once.
    path: relative to the workspace with '/', or "".
    invoked: the user asked by a command (else: the editor asked while typing).
    selected: the entry chosen in the completion list, if that is open.
    tab_size, insert_spaces: the editor's formatting options, None when it sent none.
    context: other files to show to the model, slowest-changing first.
    mode: the user's setting; "auto" lets the rules decide.
    count: how many different suggestions an invoked question may get.
    max_tokens: the most tokens of one suggestion.
    """

    text: str
    offset: int
    language_id: str
    uri: str
    skipped: int = 0
    path: str = ""
    version: int = 0
    invoked: bool = False
    selected: Selected | None = None
    tab_size: int | None = None
    insert_spaces: bool | None = None
    context: tuple[ContextFile, ...] = ()
    mode: ModeSetting = "auto"
    count: int = 3
    max_tokens: int = 128


@dataclass(frozen=True)
class Suggestion:
    """Replace [start, end) by insert_text.

    insert_text: LF line ends only.
    start, end: code-point offsets into the question's text, on one line, start <= cursor <= end.
    """

    id: str
    insert_text: str
    start: int
    end: int


@dataclass(frozen=True)
class Answer:
    """Zero or more suggestions, best first.

    reason: for people: why there is none, or where it came from.
    trace: plain values (str, int, float, bool, list, dict): the decisions, for "why this suggestion?".
    """

    suggestions: tuple[Suggestion, ...]
    reason: str
    trace: dict[str, Any] = field(default_factory=dict)
