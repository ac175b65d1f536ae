"""Brackets and quotes that the editor closed by itself, right of the cursor.

When the suggestion closes them too, the range covers them and the text brings them back: so they never
double, and editors that hide a suggestion beside trailing text still show it.
"""

from __future__ import annotations

from lsp_server.inline_completion.policy.brackets import unopened
from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.lexer import scan


def covered(text: str, cursor: Cursor) -> int:
    """How many characters right of the cursor, on its line, the suggestion writes itself."""
    if cursor.language.prose:
        return 0
    end = 0
    last = -1
    missing = list(cursor.missing)
    for mark in unopened(scan(text, cursor.language, cursor.state).brackets):
        start = _skip_blanks(cursor.line_suffix, end)
        if not cursor.line_suffix.startswith(mark.text, start):
            if missing and missing.pop(0) == mark.text:
                continue
            break
        end, last = start + len(mark.text), mark.offset + len(mark.text)
        # `)` then `;` or `,` on both sides: the separator is written by the suggestion as well.
        if (
            cursor.line_suffix[end : end + 1] in (";", ",")
            and text[last : last + 1] == cursor.line_suffix[end]
        ):
            end += 1
    rest = cursor.line_suffix[end:].rstrip()
    if last >= 0 and rest and text[last:].rstrip() == rest:
        return end + len(rest)
    if rest[:1] in (";", ",") and text.rstrip().endswith(rest[0]):
        end += 1
    return end


def _skip_blanks(line: str, start: int) -> int:
    while start < len(line) and line[start] in " \t":
        start += 1
    return start
