"""When to say nothing: before the model is asked, and after it has answered.

Each check returns a reason for people, or None. An invoked question skips the checks that guess at
what the user wants; nobody wants an empty or repeated suggestion, so those are never skipped.
"""

from __future__ import annotations

from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.indentation import leading
from lsp_server.inline_completion.policy.tail import blocking_tail

# llama.vim's default (g:llama_config.max_line_suffix).
MAX_TAIL = 8
# Mean natural-log probability per token below which an unasked suggestion is held back. About e^-1.2 = 30 %
# a token: a starting value, to be measured against what gets accepted.
MIN_MEAN_LOGPROB = -1.2
# Lines with fewer letters and digits ("}", "else:" has four) recur in every file by right.
MIN_SIGNIFICANT = 3


def significant(line: str) -> bool:
    """Whether a line says enough that repeating it is a fault."""
    return sum(character.isalnum() for character in line) >= MIN_SIGNIFICANT


def before_asking(cursor: Cursor, *, deleting: bool) -> str | None:
    """Why an automatic question should not reach the model.

    deleting: the user's last change at this place removed text.
    """
    if blocking_tail(cursor.line_suffix) > MAX_TAIL:
        return f"More than {MAX_TAIL} characters stand right of the cursor."
    if cursor.word_right:
        return "The cursor is inside a word."
    if deleting and cursor.word_left:
        return "A word is being deleted."
    return None


def unsure(mean_logprob: float) -> str | None:
    """Why an automatic suggestion is held back for the model's own doubt."""
    if mean_logprob < MIN_MEAN_LOGPROB:
        return f"The model is not sure enough (mean log-probability {mean_logprob:.2f})."
    return None


def worthless(text: str, cursor: Cursor) -> str | None:
    """Why a finished suggestion would add nothing."""
    if not text.strip():
        return "The model suggests nothing here."
    if text[-1].isalnum() and cursor.word_right:
        return "The suggestion would run into the word right of the cursor."
    if _repeats_above(text, cursor):
        return "The suggestion only repeats the lines above."
    if _repeats_below(text, cursor):
        return "The suggestion only repeats the line below."
    return None


def _repeats_above(text: str, cursor: Cursor) -> bool:
    lines = [line.rstrip() for line in (cursor.line_prefix + text).split("\n") if line.strip()]
    if not any(significant(line) for line in lines):
        return False
    end = len(cursor.prefix) - len(cursor.line_prefix)
    above: list[str] = []
    for line in reversed(cursor.prefix[max(0, end - 2 * sum(map(len, lines)) - 400) : end].split("\n")):
        if line.strip():
            above.append(line.rstrip())
        if len(above) == len(lines):
            break
    return [line.strip() for line in reversed(above)] == [line.strip() for line in lines]


def _repeats_below(text: str, cursor: Cursor) -> bool:
    whole = (cursor.line_prefix + text).rstrip()
    below = cursor.line_below.rstrip()
    return significant(below) and whole == below and leading(whole) == leading(below)
