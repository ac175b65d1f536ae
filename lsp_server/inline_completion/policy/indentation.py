"""The document's indentation unit, and bringing a suggestion to it when the model used another."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

_DEFAULT_WIDTH = 4
_WIDTHS = (2, 3, 4, 8)
_LEADING = re.compile(r"[ \t]*")


@dataclass(frozen=True)
class IndentUnit:
    """One step of indentation: a tab, or `width` blanks. A tab counts as `width` columns."""

    tabs: bool
    width: int

    @property
    def text(self) -> str:
        return "\t" if self.tabs else " " * self.width


def leading(line: str) -> str:
    """The blanks and tabs that a line begins with."""
    match = _LEADING.match(line)
    return match.group() if match else ""


def indent_width(line: str, unit: IndentUnit) -> int:
    """Columns of a line's indentation; a tab reaches the next multiple of the unit's width."""
    column = 0
    for character in leading(line):
        column += unit.width - column % unit.width if character == "\t" else 1
    return column


@lru_cache(maxsize=16)
def detect_unit(text: str, tab_size: int | None, insert_spaces: bool | None) -> IndentUnit:
    """What the file itself uses; where it has no indentation, the editor's options; else four blanks."""
    fallback = tab_size or _DEFAULT_WIDTH
    indents = [leading(line) for line in text.split("\n") if line.strip()]
    tabbed = sum(indent.startswith("\t") for indent in indents)
    spaced = sum(indent.startswith("  ") for indent in indents)
    if not tabbed and not spaced:
        return IndentUnit(insert_spaces is False, fallback)
    if tabbed > spaced:
        return IndentUnit(True, fallback)
    # Steps after an opened block tell most; text and continued lines are laid out freely.
    block_steps: Counter[int] = Counter()
    steps: Counter[int] = Counter()
    for before, after in pairwise(line for line in text.split("\n") if line.strip()):
        step = len(leading(after)) - len(leading(before))
        if step in _WIDTHS:
            steps[step] += 1
            block_steps[step] += before.rstrip().endswith((":", "{"))
    counts = +block_steps or steps
    best = max(counts, key=lambda step: (counts[step], -step)) if counts else fallback
    return IndentUnit(False, best)


def normalise(text: str, base: str, unit: IndentUnit) -> str:
    """`text` with the indentation of its second and later lines in the document's unit.

    base: the indentation of the cursor's line. Lines that already fit are left alone, and so is any
    text whose own unit cannot be told (an aligned continuation line, say).
    """
    first, *rest = text.split("\n")
    if not rest:
        return text
    if unit.tabs:
        rest = _to_tabs(rest, unit)
    else:
        rest = [leading(line).replace("\t", unit.text) + line.lstrip(" \t") for line in rest]
        rest = _rescale(first, rest, len(base.expandtabs(unit.width)), unit)
    return "\n".join([first, *rest])


def _to_tabs(lines: list[str], unit: IndentUnit) -> list[str]:
    counts = [len(leading(line)) for line in lines if line.startswith(" ") and line.strip()]
    if not counts:
        return lines
    width = unit.width if all(count % unit.width == 0 for count in counts) else math.gcd(*counts)
    if width not in _WIDTHS:
        return lines
    result = []
    for line in lines:
        count = len(leading(line)) if line.startswith(" ") else 0
        result.append("\t" * (count // width) + line[count - count % width :])
    return result


def _rescale(first: str, lines: list[str], base: int, unit: IndentUnit) -> list[str]:
    """From the model's step to the document's, told by the first line that goes deeper after an opener."""
    before = first
    step = 0
    for line in lines:
        if not line.strip():
            continue
        depth = len(leading(line)) - base
        if depth > 0:
            step = depth if before.rstrip().endswith((":", "{", "(", "[")) else 0
            break
        before = line
    depths = [len(leading(line)) - base for line in lines if line.strip()]
    if step == unit.width or step not in _WIDTHS or any(depth < 0 or depth % step for depth in depths):
        return lines
    return [_indented(line, base + (len(leading(line)) - base) // step * unit.width) for line in lines]


def _indented(line: str, width: int) -> str:
    return " " * width + line.lstrip(" ") if line.strip() else line
