"""From a stream of token ids to a stream of whole characters."""

from __future__ import annotations

import codecs
from typing import Protocol


class TokenBytes(Protocol):
    """The part of a Tokenizer that decoding needs."""

    def token_bytes(self, token: int) -> bytes: ...


class StreamDecoder:
    """Decodes one generation, token by token.

    A character that spans tokens is held until it is whole. Bytes that no continuation can make valid
    come out as U+FFFD at once, those left over at the end by `finish`. All pieces together equal
    `Tokenizer.decode` of all ids.
    """

    def __init__(self, tokenizer: TokenBytes) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, token: int) -> str:
        """The characters that this token completes, possibly none."""
        return self._decoder.decode(self._tokenizer.token_bytes(token))

    def finish(self) -> str:
        """What is still held, as U+FFFD; the decoder is then ready for another generation."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest
