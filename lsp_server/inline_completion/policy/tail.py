"""The text right of the cursor on its line: is it only what an editor closes by itself?"""

from __future__ import annotations

CLOSING = frozenset(")]}>\"'`;,")


def blocking_tail(line_suffix: str) -> int:
    """How many characters right of the cursor are neither blank nor closing."""
    return sum(character not in CLOSING and not character.isspace() for character in line_suffix)
