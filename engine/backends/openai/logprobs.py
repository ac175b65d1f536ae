"""Log probabilities as OpenAI's API tells them; it tells no token ids."""

from __future__ import annotations

import re

from engine.backends.openai.chunks import ContentLogprob, TextLogprobs, TopLogprob
from engine.backends.openai.failures import MalformedAnswer
from engine.types import TokenLogprob

UNKNOWN_TOKEN = -1
"""The id of a token that a remote names by its text alone."""

_ESCAPED = re.compile(r"bytes:((?:\\x[0-9a-f]{2})+)")


def chat_tokens(content: list[ContentLogprob]) -> tuple[TokenLogprob, ...]:
    """Of a piece of a chat. Raises MalformedAnswer."""
    return tuple(_token(one, tuple(_token(other) for other in one.top_logprobs or ())) for one in content)


def text_tokens(logprobs: TextLogprobs) -> tuple[TokenLogprob, ...]:
    """Of a piece of a completion. Raises MalformedAnswer."""
    tokens, values = logprobs.tokens, logprobs.token_logprobs
    tops = logprobs.top_logprobs or [None] * len(tokens)
    if not len(tokens) == len(values) == len(tops):
        raise MalformedAnswer("its log probabilities are not one for each token")
    return tuple(
        TokenLogprob(UNKNOWN_TOKEN, _bytes(token), value or 0.0, _likeliest_first(top or {}))
        for token, value, top in zip(tokens, values, tops, strict=True)
    )


def _likeliest_first(top: dict[str, float]) -> tuple[TokenLogprob, ...]:
    listed = sorted(top.items(), key=lambda item: -item[1])
    return tuple(TokenLogprob(UNKNOWN_TOKEN, _bytes(text), value) for text, value in listed)


def _token(one: TopLogprob, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
    if one.bytes is None:
        spelled = _bytes(one.token)
    else:
        try:
            spelled = bytes(one.bytes)
        except ValueError:
            raise MalformedAnswer("the bytes of a token are no bytes") from None
    return TokenLogprob(UNKNOWN_TOKEN, spelled, one.logprob, top)


def _bytes(text: str) -> bytes:
    r"""A part of a character is written "bytes:\xe2\x82"."""
    if escaped := _ESCAPED.fullmatch(text):
        return bytes.fromhex(escaped[1].replace("\\x", ""))
    return text.encode("utf-8", errors="replace")
