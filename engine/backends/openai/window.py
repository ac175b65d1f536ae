"""Which part of a document a remote is shown: steady places, counted in characters.

The remote's tokenizer is a round trip away, so tokens are estimated. Windows start at anchors, as those of
`engine.prompts.window` do and for the same reason: typing must not move what the remote's prefix cache holds.
"""

from __future__ import annotations

CHARACTERS_PER_TOKEN = 2.5
"""Of code; more characters a token are usual (2.5 to 4), so a prompt is rather too short than too long."""

_STEPS_PER_WINDOW = 4


def characters(tokens: int) -> int:
    """How many characters stand for so many tokens."""
    return max(1, int(tokens * CHARACTERS_PER_TOKEN))


def end_of(text: str, most: int) -> str:
    """At most the last `most` characters, from a line start that moves only now and then as text grows."""
    if len(text) <= most:
        return text
    step = 1 << (max(2, most // _STEPS_PER_WINDOW).bit_length() - 1)
    start = -(-(len(text) - most) // step) * step
    newline = text.find("\n", start - 1, start + step)
    return text[start if newline < 0 else newline + 1 :]


def start_of(text: str, most: int) -> str:
    """At most the first `most` characters, whole lines where there is a line end."""
    if len(text) <= most:
        return text
    line_end = text.rfind("\n", 0, most) + 1
    return text[: line_end or most]
