"""Code units: the three ways in which a client may count characters.

Text inside Hearth is counted in Unicode code points. Half of a surrogate pair that a client sends alone is
kept as one code point (Python's lone surrogate) and counts as one UTF-16 unit and three UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class PositionEncoding(StrEnum):
    """What `Position.character` counts; values as in the protocol's PositionEncodingKind."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"


def choose_encoding(offered: Iterable[object]) -> PositionEncoding:
    """The client's first choice among those we know; UTF-16, the protocol's default, when there is none."""
    for name in offered:
        if isinstance(name, str) and name in PositionEncoding._value2member_map_:
            return PositionEncoding(name)
    return PositionEncoding.UTF16


def count_units(text: str, encoding: PositionEncoding) -> int:
    """How many code units of `encoding` the text takes."""
    if encoding is PositionEncoding.UTF32 or text.isascii():
        return len(text)
    if encoding is PositionEncoding.UTF16:
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "surrogatepass"))


def code_points_within(text: str, units: int, encoding: PositionEncoding) -> int:
    """The most code points from the start of `text` that fit in `units` code units.

    A count that ends inside a character (a surrogate pair, a UTF-8 sequence) is rounded down to its start.
    """
    if encoding is PositionEncoding.UTF32 or text.isascii():
        return min(units, len(text))
    text = text[: units + 1]  # a code point is at least one unit; one more to see what the cut splits
    if encoding is PositionEncoding.UTF16:
        raw = text.encode("utf-16-le", "surrogatepass")
        cut = min(2 * units, len(raw))
        if 2 <= cut < len(raw) and _is_high(raw, cut - 2) and _is_low(raw, cut):
            cut -= 2
        return len(raw[:cut].decode("utf-16-le", "surrogatepass"))
    raw = text.encode("utf-8", "surrogatepass")
    cut = min(units, len(raw))
    while 0 < cut < len(raw) and raw[cut] & 0xC0 == 0x80:  # a continuation byte
        cut -= 1
    return len(raw[:cut].decode("utf-8", "surrogatepass"))


def join_surrogates(text: str) -> str:
    """The text with every high surrogate that meets a low one turned into the one character they spell."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def is_high_surrogate(char: str) -> bool:
    """True for the first half of a pair."""
    return "\ud800" <= char <= "\udbff"


def is_low_surrogate(char: str) -> bool:
    """True for the second half of a pair."""
    return "\udc00" <= char <= "\udfff"


def _is_high(raw: bytes, at: int) -> bool:
    return raw[at + 1] & 0xFC == 0xD8


def _is_low(raw: bytes, at: int) -> bool:
    return raw[at + 1] & 0xFC == 0xDC
