"""The place in the document that a question asks about, read once: every rule looks at this alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lsp_server.inline_completion.policy import syntax
from lsp_server.inline_completion.policy.brackets import missing_closers, unclosed
from lsp_server.inline_completion.policy.indentation import IndentUnit, detect_unit, indent_width, leading
from lsp_server.inline_completion.policy.languages import Language, language
from lsp_server.inline_completion.policy.lexer import scan
from lsp_server.inline_completion.policy.line_ends import Surroundings, surroundings
from lsp_server.inline_completion.policy.tail import blocking_tail
from lsp_server.inline_completion.policy.values import Question

_WORD_END = re.compile(r"\w+\Z")
_WORD_START = re.compile(r"\w+")


@dataclass(frozen=True)
class Cursor(Surroundings):
    """The cursor's surroundings, and what they tell.

    line_prefix, line_suffix: the parts of the cursor's line.
    line_above, line_below: the nearest lines with text ("" at the ends of the file).
    literal: "string", "comment" or "" for code. state: the lexer's state at the cursor.
    after_opener: the nearest token to the left opens a block that is still empty.
    missing: closing brackets that the text round the cursor lacks, innermost first.
    """

    line_prefix: str
    line_suffix: str
    line_above: str
    line_below: str
    language_id: str
    language: Language
    unit: IndentUnit
    literal: str
    state: str
    after_opener: bool
    missing: tuple[str, ...]

    @property
    def near_before(self) -> str:
        """The whole lines before the cursor that lexer and parser look at."""
        return _from_line_start(self.prefix, syntax.WINDOW_BEFORE)

    @property
    def near_after(self) -> str:
        """The text after the cursor that lexer and parser look at."""
        return self.suffix[: syntax.WINDOW_AFTER]

    @property
    def word_left(self) -> str:
        match = _WORD_END.search(self.line_prefix)
        return match.group() if match else ""

    @property
    def word_right(self) -> str:
        match = _WORD_START.match(self.line_suffix)
        return match.group() if match else ""

    @property
    def before_line(self) -> bool:
        """Whether the cursor stands before a whole, indented line: only whole lines fit there."""
        return not self.line_prefix and bool(leading(self.line_suffix) and blocking_tail(self.line_suffix))

    @property
    def base_indent(self) -> str:
        return leading(self.line_prefix)


def read_cursor(question: Question) -> Cursor:
    """Read the surroundings of the question's cursor, or, with a selected entry, of that entry's end."""
    around = surroundings(question)
    prefix, suffix = around.prefix, around.suffix
    facts = language(question.language_id)
    near_before = _from_line_start(prefix, syntax.WINDOW_BEFORE)
    near_after = suffix[: syntax.WINDOW_AFTER]
    state = scan(near_before, facts).state
    line_prefix = prefix.rpartition("\n")[2]
    line_suffix, _, below = suffix.partition("\n")
    line_below = _first_line(below)
    # The lexer alone sees an unfinished string; tree-sitter alone sees through interpolation.
    parsed = syntax.literal_at(near_before, near_after, question.language_id)
    if parsed in ("", "interpolation"):
        state = ""
    literal = parsed if parsed in ("string", "comment") else _literal(facts, state)
    unit = detect_unit(near_before + near_after, question.tab_size, question.insert_spaces)
    return Cursor(
        position=around.position,
        prefix=prefix,
        suffix=suffix,
        line_prefix=line_prefix,
        line_suffix=line_suffix,
        line_above=_last_line(prefix[: len(prefix) - len(line_prefix)]),
        line_below=line_below,
        language_id=question.language_id,
        language=facts,
        unit=unit,
        literal=literal,
        state=state,
        after_opener=not literal
        and _opens_block(near_before, near_after, question.language_id, facts)
        and _block_is_empty(near_before, line_suffix, line_below, unit),
        missing=() if facts.prose else missing_closers(near_before, near_after, facts, state),
    )


def _from_line_start(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    tail = text[-limit:]
    return tail[tail.find("\n") + 1 :]


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def _first_line(text: str) -> str:
    return next((line for line in text.split("\n") if line.strip()), "")


def _literal(facts: Language, state: str) -> str:
    if not state:
        return ""
    is_comment = state in facts.line_comments or (facts.block_comment and state == facts.block_comment[0])
    return "comment" if is_comment else "string"


def _opens_block(before: str, after: str, language_id: str, facts: Language) -> bool:
    stripped = before.rstrip()
    if not stripped.endswith((*facts.block_openers, "=>")) or before[len(stripped) :].count("\n") > 1:
        return False
    parsed = syntax.opens_block(before, after, language_id)
    return _looks_like_opener(stripped.rpartition("\n")[2], facts) if parsed is None else parsed


def _looks_like_opener(line: str, facts: Language) -> bool:
    if not facts.block_keywords:
        return True
    word = _WORD_START.match(line.lstrip())
    return (
        word is not None and word.group() in facts.block_keywords and not unclosed(scan(line, facts).brackets)
    )


def _block_is_empty(before: str, line_suffix: str, line_below: str, unit: IndentUnit) -> bool:
    rest = line_suffix.strip()
    if rest:
        return rest[0] in ")]}"
    if not line_below:
        return True
    opener_line = _last_line(before)
    return indent_width(line_below, unit) <= indent_width(opener_line, unit)
