"""How a person would see it: the code around the cursor with the ghost text in it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lsp_server.demo.holes import Hole
from lsp_server.demo.session import Nothing, Suggestion

_ABOVE, _BELOW = 5, 3  # lines of code shown around the cursor
_GHOST = "italic bright_black"


def show_hole(console: Console, hole: Hole, answer: Suggestion | Nothing) -> None:
    """The code with the ghost text dimmed, set in « » and marked in the margin; then what it took."""
    console.print()
    console.print(Text.assemble((f"{hole.name}:{hole.line + 1}", "bold"), f"  {hole.title}"))
    for number, line, ghost in _lines(hole, answer):
        margin = Text("▌" if ghost else " ", style="green")
        console.print(Text.assemble(margin, (f"{number:>4} ", "bright_black"), line), soft_wrap=True)
    console.print(Text(_told(answer), style="dim" if isinstance(answer, Suggestion) else "yellow"))


def _lines(hole: Hole, answer: Suggestion | Nothing) -> list[tuple[int, Text, bool]]:
    """(line number, text, whether any of it is ghost text) of the lines to show."""
    ghost = answer.ghost if isinstance(answer, Suggestion) else ""
    covered = answer.covered if isinstance(answer, Suggestion) else 0
    whole = Text.assemble(hole.before, (f"«{ghost}»", _GHOST), hole.after[covered:])
    first, last = hole.line, hole.line + ghost.count("\n")
    lines = list(whole.split("\n", allow_blank=True))
    shown = range(max(0, first - _ABOVE), min(len(lines), last + _BELOW + 1))
    return [(i + 1, lines[i], first <= i <= last) for i in shown]


def _told(answer: Suggestion | Nothing) -> str:
    if isinstance(answer, Nothing):
        return f"      No suggestion after {_ms(answer.seconds)}. {answer.reason}".rstrip()
    speed = f", {answer.tokens_per_second:.0f} tokens/s" if answer.tokens_per_second else ""
    return f"      first item after {_ms(answer.seconds)}{speed}"


def show_summary(console: Console, rows: Sequence[tuple[Hole, Suggestion | Nothing]]) -> None:
    """A line for each hole: what came, when, how fast, and which of the expected words it holds."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("place", no_wrap=True)
    table.add_column("suggestion", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("first item", justify="right", no_wrap=True)
    table.add_column("tokens/s", justify="right", no_wrap=True)
    table.add_column("hints", justify="right", no_wrap=True)
    for hole, answer in rows:
        place = f"{hole.path.name}:{hole.line + 1}"
        if isinstance(answer, Nothing):
            table.add_row(place, Text("none", style="yellow"), _ms(answer.seconds), "", "")
            continue
        lines = answer.ghost.strip().splitlines() or [""]
        more = f"  (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
        speed = f"{answer.tokens_per_second:.0f}" if answer.tokens_per_second else ""
        found = sum(hint in answer.ghost for hint in hole.hints)
        table.add_row(place, Text(lines[0] + more), _ms(answer.seconds), speed, f"{found}/{len(hole.hints)}")
    console.print()
    console.print(table)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"
