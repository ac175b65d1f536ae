"""From the model's text to a text that fits at the cursor: each step cuts or rewrites, and says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lsp_server.inline_completion.policy.complete_lines import cut_to_complete
from lsp_server.inline_completion.policy.cover import covered
from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.indentation import leading, normalise
from lsp_server.inline_completion.policy.line_ends import to_lf
from lsp_server.inline_completion.policy.markers import strip_fence
from lsp_server.inline_completion.policy.mode import Mode
from lsp_server.inline_completion.policy.overlap import trim_overlap
from lsp_server.inline_completion.policy.repeated_prefix import trim_doubled_blanks, trim_repeated_prefix
from lsp_server.inline_completion.policy.stop import Cut, find_cut


@dataclass(frozen=True)
class Shaped:
    """text: to stand at the cursor. covers: characters right of the cursor that text replaces.

    steps: the names of the steps that changed the text, in order.
    """

    text: str
    covers: int
    steps: tuple[str, ...]


def shape(raw: str, cursor: Cursor, mode: Mode, *, cut: Cut | None, truncated: bool) -> Shaped:
    """Fit the model's text in.

    raw: all that the model wrote. cut: where the stop rules ended it while it was written.
    truncated: the model ran out of tokens, so the last line may be unfinished.
    """
    steps: list[str] = []
    text = raw

    def step(name: str, change: Callable[[str], str]) -> None:
        nonlocal text
        changed = change(text)
        if changed != text:
            steps.append(name)
            text = changed

    step("line ends", to_lf)
    if cut is not None:
        kept = cut.keep
        step(cut.rule, lambda value: value[:kept])
    elif truncated and mode is Mode.MULTI:
        step("unfinished line", lambda value: cut_to_complete(value, cursor))
    step("code fence", lambda value: strip_fence(value, cursor))
    step("repeats the text left of the cursor", lambda value: trim_repeated_prefix(value, cursor))
    step("doubled blanks", lambda value: trim_doubled_blanks(value, cursor))
    step("indentation", lambda value: normalise(value, _base_indent(value, cursor), cursor.unit))
    # What these steps removed may have hidden a reason to stop.
    again = find_cut(text, cursor, mode, final=True)
    if again is not None:
        step(again.rule, lambda value: value[: again.keep])
    step("repeats the text below", lambda value: trim_overlap(value, cursor))
    step("trailing blanks", lambda value: _trim_end(value, cursor))
    if mode is Mode.MULTI and cursor.before_line:
        step("whole lines", lambda value: f"{value.rstrip()}\n" if value.strip() else value)
    return Shaped(text, covered(text, cursor), tuple(steps))


def _base_indent(text: str, cursor: Cursor) -> str:
    """The indentation of the suggestion's first line, as it will stand in the document."""
    return cursor.base_indent if cursor.line_prefix.strip() else cursor.base_indent + leading(text)


def _trim_end(text: str, cursor: Cursor) -> str:
    rest = cursor.line_suffix[covered(text, cursor) :]
    if not rest.strip():
        return text.rstrip()
    if rest[0].isspace() and "\n" not in text[len(text.rstrip()) :]:
        return text.rstrip(" \t")
    return text
