"""Log probabilities of tokens in the shapes of OpenAI's APIs."""

from __future__ import annotations

from collections.abc import Sequence

from engine.types import TokenLogprob

# What OpenAI documents for "very unlikely"; JSON has no infinity.
_LEAST = -9999.0


def token_text(token: TokenLogprob) -> str:
    r"""A token's text, or "bytes:\xe2\x82" when it is only part of a character."""
    try:
        return token.bytes.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.bytes)


def chat_logprobs(tokens: Sequence[TokenLogprob]) -> list[dict[str, object]]:
    """`logprobs.content` of a chat choice; the Responses API has the same form."""
    return [{**_entry(token), "top_logprobs": [_entry(other) for other in token.top]} for token in tokens]


def _entry(token: TokenLogprob) -> dict[str, object]:
    return {
        "token": token_text(token),
        "logprob": max(token.logprob, _LEAST),
        "bytes": list(token.bytes),
    }


class CompletionLogprobs:
    """`logprobs` of completions, whose text offsets go on over the pieces of a stream.

    offset: the length of the text before the first token (of an echoed prompt).
    """

    def __init__(self, offset: int = 0) -> None:
        self._start = offset
        self._bytes = b""

    def piece(self, tokens: Sequence[TokenLogprob]) -> dict[str, object]:
        """The next tokens. Of several with one text the likeliest is listed: the form is a map by text."""
        offsets = []
        tops: list[dict[str, float]] = []
        for token in tokens:
            offsets.append(self._start + len(self._bytes.decode("utf-8", errors="ignore")))
            self._bytes += token.bytes
            top: dict[str, float] = {}
            for other in token.top:
                top.setdefault(token_text(other), max(other.logprob, _LEAST))
            tops.append(top)
        self._settle()
        return {
            "tokens": [token_text(token) for token in tokens],
            "token_logprobs": [max(token.logprob, _LEAST) for token in tokens],
            "top_logprobs": tops,
            "text_offset": offsets,
        }

    def _settle(self) -> None:
        """Count whole characters once, and keep what may still become one (at most three bytes)."""
        for kept in range(min(4, len(self._bytes) + 1)):
            cut = len(self._bytes) - kept
            try:
                text = self._bytes[:cut].decode("utf-8")
            except UnicodeDecodeError:
                continue
            self._start += len(text)
            self._bytes = self._bytes[cut:]
            return
        self._start += len(self._bytes.decode("utf-8", errors="replace"))
        self._bytes = b""
