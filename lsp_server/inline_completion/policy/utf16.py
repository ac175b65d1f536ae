"""UTF-16 lengths, as editors count them, against code points, as Python does."""

from __future__ import annotations


def code_points(text: str, units: int) -> int:
    """How many whole code points the first `units` UTF-16 units of text hold; inside a pair rounds down."""
    used = 0
    for count, character in enumerate(text):
        used += 2 if ord(character) > 0xFFFF else 1
        if used > units:
            return count
    return len(text)
