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

    The first closer of the suffix belongs to the innermost opener whose line is indented like the
    closer's; openers inside that one are missing theirs. Indentation tells it even when both windows
    are cut; where it does not (one line, odd layout), counting does.
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
    if not closed:
        return tuple(bracket.closer for bracket in opened)
    first = next((bracket for bracket in closed if not bracket.same_line), None)
    on_line = sum(bracket.same_line for bracket in closed)
    inner = opened[on_line:]
    if first is None:
        return tuple(bracket.closer for bracket in inner)
    for index, bracket in enumerate(inner):
        if bracket.closer == first.closer and bracket.indent == first.indent:
            return tuple(skipped.closer for skipped in inner[:index])
    lacking = max(0, len(inner) - (len(closed) - on_line))
    return tuple(bracket.closer for bracket in inner[:lacking])
