"""When the model ran out of tokens in mid-statement: back to the last line where the code is whole."""

from __future__ import annotations

from lsp_server.inline_completion.policy import syntax
from lsp_server.inline_completion.policy.brackets import unclosed
from lsp_server.inline_completion.policy.cover import covered
from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.lexer import scan

# Each try parses a window once.
_MAX_TRIES = 8


def cut_to_complete(text: str, cursor: Cursor) -> str:
    """The longest run of whole lines that leaves no bracket open and, where a grammar is known, no error.

    Where every run has an error (the document itself is broken), brackets alone decide; where those are
    open too, only the unfinished last line goes. A single line is returned as it is.
    """
    lines = text.split("\n")
    if len(lines) == 1:
        return text
    balanced = None
    for count in range(len(lines) - 1, max(0, len(lines) - 1 - _MAX_TRIES), -1):
        kept = "\n".join(lines[:count])
        found = scan(kept, cursor.language, cursor.state)
        in_new_string = found.state != cursor.state and found.state in cursor.language.multiline
        if not kept.strip() or unclosed(found.brackets) or in_new_string:
            continue
        after = cursor.near_after[covered(kept, cursor) :]
        if syntax.well_formed(cursor.near_before, kept, after, cursor.language_id) is not False:
            return kept
        balanced = balanced or kept
    return balanced or "\n".join(lines[:-1])
