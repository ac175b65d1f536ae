"""Which brackets are open at the cursor, which of them the rest of the file closes, and which it does not."""

from __future__ import annotations

from dataclasses import dataclass

from lsp_server.inline_completion.policy.indentation import leading
from lsp_server.inline_completion.policy.languages import Language
from lsp_server.inline_completion.policy.lexer import CLOSERS, OPENERS, PAIRS, Mark, scan


@dataclass(frozen=True)
class Bracket:
    """closer: what closes it; indent: width of its line's indentation; same_line: on the cursor's line."""

    closer: str
    indent: int
    same_line: bool


def _indent_at(text: str, offset: int) -> int:
    start = text.rfind("\n", 0, offset) + 1
    return len(leading(text[start:offset]))


def unopened(marks: tuple[Mark, ...]) -> list[Mark]:
    """The closing marks that close nothing opened among `marks`."""
    depth: list[str] = []
    result: list[Mark] = []
    for mark in marks:
        if mark.text in OPENERS:
            depth.append(PAIRS[mark.text])
        elif depth and depth[-1] == mark.text:
            depth.pop()
        elif mark.text not in CLOSERS or not depth:
            result.append(mark)
    return result


def unclosed(marks: tuple[Mark, ...]) -> list[Mark]:
    """The opening marks that nothing among `marks` closes, outermost first."""
    stack: list[Mark] = []
    for mark in marks:
        if mark.text in OPENERS:
            stack.append(mark)
        elif stack and PAIRS[stack[-1].text] == mark.text:
            stack.pop()
    return stack


def missing_closers(prefix: str, suffix: str, language: Language, state: str) -> tuple[str, ...]:
    """Closers that the text round the cursor lacks, innermost first: what a suggestion may close itself.

    A closer on the cursor's line belongs to the innermost opener of its kind; openers inside that one are
    missing theirs. The first closer further down belongs to the innermost opener whose line is indented like
    the closer's. Indentation tells it even when both windows are cut; where it does not (odd layout),
    counting does.
    """
    line_start = prefix.rfind("\n") + 1
    opened = [
        Bracket(PAIRS[mark.text], _indent_at(prefix, mark.offset), mark.offset >= line_start)
        for mark in reversed(unclosed(scan(prefix, language).brackets))
    ]
    line_end = len(suffix.partition("\n")[0])
    closed = [
        Bracket(mark.text, _indent_at(suffix, mark.offset), mark.offset < line_end)
        for mark in unopened(scan(suffix, language, state).brackets)
        if mark.text in CLOSERS
    ]
    missing, inner = [], opened
    for closer in (bracket.closer for bracket in closed if bracket.same_line):
        found = next((index for index, bracket in enumerate(inner) if bracket.closer == closer), None)
        if found is not None:
            missing += inner[:found]
            inner = inner[found + 1 :]
    below = [bracket for bracket in closed if not bracket.same_line]
    if not below:
        return tuple(bracket.closer for bracket in missing + inner)
    lacking = max(0, len(inner) - len(below))
    for index, bracket in enumerate(inner):
        if bracket.closer == below[0].closer and bracket.indent == below[0].indent:
            lacking = index
            break
    return tuple(bracket.closer for bracket in missing + inner[:lacking])
