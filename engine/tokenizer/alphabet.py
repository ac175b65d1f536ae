"""The byte-to-character alphabet of GPT-2's byte-level BPE.

Printable Latin-1 bytes spell themselves; the other 68 bytes take the code points from U+0100 on, in
order (openai/gpt-2, src/encoder.py, bytes_to_unicode).
"""

from __future__ import annotations

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in set(_PRINTABLE)]

BYTE_OF_CHARACTER: dict[str, int] = {chr(byte): byte for byte in _PRINTABLE} | {
    chr(256 + place): byte for place, byte in enumerate(_OTHERS)
}
_TO_LATIN_1 = str.maketrans({character: chr(byte) for character, byte in BYTE_OF_CHARACTER.items()})


def spelled_bytes(text: str) -> bytes:
    """The bytes that a spelling stands for; a character outside the alphabet stands for its UTF-8."""
    try:
        return text.translate(_TO_LATIN_1).encode("latin-1")
    except UnicodeEncodeError:
        return b"".join(bytes([BYTE_OF_CHARACTER[c]]) if c in BYTE_OF_CHARACTER else c.encode() for c in text)
