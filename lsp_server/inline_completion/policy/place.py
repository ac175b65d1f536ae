"""Where a suggestion may stand: checks on the question's offsets, and the range of a selected entry."""

from __future__ import annotations

from lsp_server.inline_completion.policy.brackets import unopened
from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.lexer import scan
from lsp_server.inline_completion.policy.line_ends import inside_line_end
from lsp_server.inline_completion.policy.values import Question


def invalid(question: Question) -> str | None:
    """Why the question's offsets cannot be served, for people; None when they can."""
    text, offset = question.text, question.offset
    if not 0 <= offset <= len(text) or inside_line_end(text, offset):
        return "The cursor is not at a place in the document."
    chosen = question.selected
    if chosen is None:
        return None
    if not 0 <= chosen.start <= offset <= chosen.end <= len(text) or _has_line_end(
        text[chosen.start : chosen.end]
    ):
        return "The completion list's entry does not lie on the cursor's line."
    if _has_line_end(chosen.text):
        return "The completion list's entry has several lines."
    return None


def _has_line_end(text: str) -> bool:
    return "\n" in text or "\r" in text


def fit_selected(text: str, covers: int, cursor: Cursor) -> str | None:
    """The text to stand after a selected entry, whose range is fixed: it cannot cover closed brackets.

    What would be covered is left out instead, which works only when the suggestion ends with it.
    """
    if not covers:
        return text
    marks = unopened(scan(text, cursor.language, cursor.state).brackets)
    tail = cursor.line_suffix[:covers]
    fitted = text[: marks[0].offset] if marks else text[: -len(tail)]
    return fitted if fitted + tail == text and fitted.strip() else None
