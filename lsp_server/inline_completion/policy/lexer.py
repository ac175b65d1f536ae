"""A small scanner that tells code from strings and comments, so that brackets inside those do not count.

It works on any text, broken or cut off, which is what a document under the cursor mostly is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from lsp_server.inline_completion.policy.languages import Language

PAIRS = {"(": ")", "[": "]", "{": "}"}
OPENERS = frozenset(PAIRS)
CLOSERS = frozenset(PAIRS.values())

_REGEX = re.compile(r"/[^\s*/](?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])*/?")
_BEFORE_VALUE = re.compile(r"(?:[=(,:\[!&|?{};>]|\breturn|\A)\s*\Z")
_CHARACTER = re.compile(r"'(?:\\.[^']{0,8}|[^\\'\n])'")


@dataclass(frozen=True)
class Mark:
    """A bracket in code, or the delimiter that ends the string which the scan began in."""

    offset: int
    text: str


@dataclass(frozen=True)
class Scan:
    """brackets: every bracket in code, in order. state: "" in code, else the open delimiter."""

    brackets: tuple[Mark, ...]
    state: str


@lru_cache(maxsize=64)
def _code_pattern(language: Language) -> re.Pattern[str]:
    starts = [*language.line_comments, *language.quotes]
    if language.block_comment:
        starts.append(language.block_comment[0])
    alternatives = sorted((re.escape(start) for start in starts), key=len, reverse=True)
    return re.compile("|".join([*alternatives, r"[()\[\]{}]", *(["/"] if language.regexes else [])]))


@lru_cache(maxsize=64)
def _string_pattern(quote: str, multiline: bool) -> re.Pattern[str]:
    end = re.escape(quote) if multiline else re.escape(quote) + r"|\n"
    return re.compile(r"\\.|" + end, re.DOTALL)


@lru_cache(maxsize=16)
def scan(text: str, language: Language, state: str = "") -> Scan:
    """Scan text that starts in `state` (the state of an earlier scan).

    The end of the string that the scan began in is reported among the brackets; no other quote is.
    The latest scans are kept: several rules ask for the same one, and the text below the cursor stays while
    somebody types.
    """
    brackets: list[Mark] = []
    code = _code_pattern(language)
    began_in = state
    position = 0
    while position < len(text):
        if not state:
            match = code.search(text, position)
            if match is None:
                break
            found, position = match.group(), match.end()
            if found in OPENERS or found in CLOSERS:
                brackets.append(Mark(match.start(), found))
            elif found == "/":
                regex = _REGEX.match(text, match.start())
                if regex and _BEFORE_VALUE.search(text, max(0, match.start() - 20), match.start()):
                    position = regex.end()
            elif found == "'" and language.rust_quotes:
                character = _CHARACTER.match(text, match.start())
                position = character.end() if character else position
            else:
                state = found
        elif state in language.line_comments:
            end = text.find("\n", position)
            if end < 0:
                break
            position, state, began_in = end + 1, "", ""
        elif language.block_comment and state == language.block_comment[0]:
            closing = language.block_comment[1]
            end = text.find(closing, position)
            if end < 0:
                break
            position, state, began_in = end + len(closing), "", ""
        else:
            match = _string_pattern(state, state in language.multiline).search(text, position)
            if match is None:
                break
            position = match.end()
            if match.group()[0] != "\\":
                if began_in and match.group() == began_in:
                    brackets.append(Mark(match.start(), began_in))
                state, began_in = "", ""
    return Scan(tuple(brackets), state)
