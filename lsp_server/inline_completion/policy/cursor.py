"""The place in the document that a question asks about: every rule looks at this alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

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

    Lexer and parser run when a rule first asks for what they tell: a key that goes along a suggestion needs
    neither, and must be answered before the next one comes.
    """

    language_id: str
    language: Language
    tab_size: int | None
    insert_spaces: bool | None

    @cached_property
    def line_prefix(self) -> str:
        """The cursor's line before it."""
        return self.prefix.rpartition("\n")[2]

    @cached_property
    def line_suffix(self) -> str:
        """The cursor's line after it."""
        return self.suffix.partition("\n")[0]

    @cached_property
    def line_above(self) -> str:
        """The nearest line above that has text; "" at the start of the file."""
        return _last_line(self.prefix[: len(self.prefix) - len(self.line_prefix)])

    @cached_property
    def line_below(self) -> str:
        """The nearest line below that has text; "" at the end of the file."""
        return _first_line(self.suffix[len(self.line_suffix) + 1 :])

    @cached_property
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

    @cached_property
    def unit(self) -> IndentUnit:
        """The document's step of indentation."""
        above = self.near_before[: len(self.near_before) - len(self.line_prefix)]
        below = self.near_after[len(self.line_suffix) :]
        # Of the cursor's line only how it begins, so that the text is the same for every key in it.
        own = self.base_indent + ("x" if self.line_prefix.strip() else "")
        return detect_unit(above + own + below, self.tab_size, self.insert_spaces)

    @property
    def literal(self) -> str:
        """What the cursor is in: "string", "comment" or "" for code."""
        return self._place[0]

    @property
    def state(self) -> str:
        """The lexer's state at the cursor."""
        return self._place[1]

    @cached_property
    def _place(self) -> tuple[str, str]:
        """literal and state."""
        state = scan(self.near_before, self.language).state
        # The lexer alone sees an unfinished string; tree-sitter alone sees through interpolation.
        parsed = syntax.literal_at(self.near_before, self.near_after, self.language_id)
        if parsed in ("", "interpolation"):
            state = ""
        return parsed if parsed in ("string", "comment") else _literal(self.language, state), state

    @cached_property
    def after_opener(self) -> bool:
        """Whether the nearest token to the left opens a block that is still empty."""
        return (
            not self.literal
            and _opens_block(self.near_before, self.near_after, self.language_id, self.language)
            and _block_is_empty(self.near_before, self.line_suffix, self.line_below, self.unit)
        )

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Closing brackets that the text round the cursor lacks, innermost first."""
        if self.language.prose:
            return ()
        return missing_closers(self.near_before, self.near_after, self.language, self.state)


@lru_cache(maxsize=4)
def read_cursor(question: Question) -> Cursor:
    """The surroundings of the question's cursor, or, with a selected entry, of that entry's end.

    The latest are kept: a question that cannot follow another one is looked at again.
    """
    around = surroundings(question)
    return Cursor(
        position=around.position,
        prefix=around.prefix,
        suffix=around.suffix,
        language_id=question.language_id,
        language=language(question.language_id),
        tab_size=question.tab_size,
        insert_spaces=question.insert_spaces,
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
