"""One line or several: decided by where the cursor is, before the model is asked."""

from __future__ import annotations

from enum import StrEnum

from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.tail import blocking_tail
from lsp_server.inline_completion.policy.values import ModeSetting


class Mode(StrEnum):
    SINGLE = "single"
    MULTI = "multi"


def decide_mode(cursor: Cursor, setting: ModeSetting, invoked: bool) -> tuple[Mode, str]:
    """The mode and the name of the rule that chose it; the first rule that fits wins."""
    if setting != "auto":
        return Mode(setting), "setting"
    if invoked and cursor.before_line:
        return Mode.MULTI, "lines above this one"
    if blocking_tail(cursor.line_suffix):
        return Mode.SINGLE, "text right of the cursor"
    if invoked:
        return Mode.MULTI, "invoked"
    if cursor.literal:
        return Mode.SINGLE, f"inside a {cursor.literal}"
    if cursor.after_opener:
        return Mode.MULTI, "empty block"
    if not cursor.line_prefix.strip() and cursor.line_above.lstrip().startswith(
        cursor.language.line_comments
    ):
        return Mode.MULTI, "below a comment"
    return Mode.SINGLE, "inside a line" if cursor.line_prefix.strip() else "new line"
