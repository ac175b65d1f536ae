"""Clipping a document round the cursor and turning CRLF and CR into LF, the only line end that models see.

A suggestion's range lies on one line, where no line end stands, so offsets into that line need no
mapping: they are the cursor's own offset plus or minus characters of the line.
"""

from __future__ import annotations

from dataclasses import dataclass

from lsp_server.inline_completion.policy.values import Question

# Characters kept on each side; the engine clips further, by tokens, to the budget it can afford.
PREFIX_LIMIT = 24_000
SUFFIX_LIMIT = 8_000
# The window's start moves in steps of this size, so that the prompt keeps its first tokens (and the
# engine its KV prefix) while the user types.
PREFIX_STEP = 8_000


def to_lf(text: str) -> str:
    """CRLF and CR as LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def inside_line_end(text: str, offset: int) -> bool:
    """Whether the offset stands between the CR and the LF of one line end."""
    return 0 < offset < len(text) and text[offset - 1] == "\r" and text[offset] == "\n"


def lf_offset(text: str, offset: int) -> int:
    """The offset that the same place has once every CRLF is one character."""
    if text.find("\r", 0, offset) < 0:  # forty times as fast as counting, and the usual case
        return offset
    return offset - text.count("\r\n", 0, offset)


def clip_prefix(text: str, offset: int, skipped: int = 0) -> str:
    """Up to PREFIX_LIMIT characters before offset, from a line's start where there is one, as LF.

    skipped: LF characters of the document before text. The start depends on LF offsets, so that CRLF and LF
    twins of a file are cut at the same place.
    """
    length = skipped + lf_offset(text, offset)
    if length <= PREFIX_LIMIT:
        return to_lf(text[:offset])
    start = -(-(length - PREFIX_LIMIT) // PREFIX_STEP) * PREFIX_STEP
    # At most every second character is the CR of a CRLF.
    tail = to_lf(text[max(0, offset - 2 * PREFIX_LIMIT - 1) : offset])
    kept = tail[-(length - start) :]
    line_start = kept.find("\n") + 1
    return kept[line_start:]


def clip_suffix(text: str, offset: int) -> str:
    """Up to SUFFIX_LIMIT characters from offset on, to a line's end where there is one, as LF."""
    kept = to_lf(text[offset : offset + 2 * SUFFIX_LIMIT + 1])
    if len(kept) <= SUFFIX_LIMIT and offset + 2 * SUFFIX_LIMIT + 1 >= len(text):
        return kept
    kept = kept[:SUFFIX_LIMIT]
    line_end = kept.rfind("\n") + 1
    return kept[:line_end] or kept


@dataclass(frozen=True)
class Surroundings:
    """What the model sees of a document: the text before and after a place, clipped far away, LF.

    position: LF characters from the start of the document to the place.
    """

    position: int
    prefix: str
    suffix: str


def surroundings(question: Question) -> Surroundings:
    """Of the question's cursor, or, with a selected entry, of that entry's end."""
    start = end = question.offset
    chosen = ""
    if question.selected is not None:
        start, end, chosen = question.selected.start, question.selected.end, question.selected.text
    return Surroundings(
        position=question.skipped + lf_offset(question.text, start) + len(chosen),
        prefix=clip_prefix(question.text, start, question.skipped) + chosen,
        suffix=clip_suffix(question.text, end),
    )


def typed_between(before: Surroundings, after: Surroundings) -> str | None:
    """What was typed at the place, which is now behind it; None after any other change in sight."""
    grown = after.position - before.position
    if grown < 0 or after.suffix != before.suffix or grown > len(after.prefix):
        return None
    old, typed = after.prefix[: len(after.prefix) - grown], after.prefix[len(after.prefix) - grown :]
    # The windows may begin at different places.
    same = old.endswith(before.prefix) if len(old) > len(before.prefix) else before.prefix.endswith(old)
    return typed if same else None
