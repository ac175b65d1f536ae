"""Token healing: a cursor inside a word should not force the model into an odd tokenisation.

"calcul|" is cut into tokens that never precede "ate" in training, because "calculate" is one token. So
the prompt backs up to the last whole token, and the first tokens drawn must spell the bytes removed.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from engine.tokenizer import Tokenizer

_MOST_TOKENS = 8  # identifiers longer than this are left as they are


def heal(ids: list[int], tokenizer: Tokenizer) -> tuple[list[int], bytes]:
    """(ids without the identifier that they end in, the bytes of what was removed).

    The bytes may begin with the blank or sign before the word, which its first token may hold. Nothing is
    removed after a blank, a newline or punctuation, or from an identifier of more than eight tokens.
    """
    kept = len(ids)
    while kept > 0 and _is_word(tokenizer.token_bytes(ids[kept - 1])):
        kept -= 1
    if kept > 0:
        before = tokenizer.token_bytes(ids[kept - 1])
        # Most vocabularies join a blank or a sign to the word after it: " word", ".word".
        if _is_signed_word(before) or (kept < len(ids) and _is_sign(before)):
            kept -= 1
    if len(ids) - kept > _MOST_TOKENS:
        return list(ids), b""
    forced = b"".join(tokenizer.token_bytes(token) for token in ids[kept:])
    return list(ids[:kept]), forced


def remaining_bytes(forced: bytes, token_bytes: bytes) -> bytes:
    """What must still be spelled after a token that `allowed_first_tokens` allowed."""
    return forced[len(token_bytes) :]


class VocabularyTrie:
    """All tokens that stand for text, sorted by their bytes: every prefix is one range of the list.

    Built on first use of a model (well under a second for 152,000 tokens); immutable, safe from any thread.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        spelled = [(tokenizer.token_bytes(token), token) for token in range(tokenizer.vocab_size)]
        entries = sorted(entry for entry in spelled if entry[0])
        self._keys = [key for key, _ in entries]
        self._tokens = np.array([token for _, token in entries], dtype=np.int64)

    def allowed_first_tokens(self, forced_bytes: bytes) -> NDArray[np.int64]:
        """Ids, ascending, that can begin a text which starts with forced_bytes: those that start with
        them, and those that spell a part of them. All tokens for b""."""
        first, last = self._range(forced_bytes)
        parts = [self._tokens[first:last]]
        for length in range(1, len(forced_bytes)):
            part = forced_bytes[:length]
            start = bisect_left(self._keys, part)
            stop = start
            while stop < len(self._keys) and self._keys[stop] == part:
                stop += 1
            parts.append(self._tokens[start:stop])
        return np.sort(np.concatenate(parts))

    def mask(self, forced_bytes: bytes, n_vocab: int) -> NDArray[np.bool_]:
        """True for the allowed ids; shape (n_vocab,), as logits have it."""
        mask = np.zeros(n_vocab, dtype=np.bool_)
        mask[self.allowed_first_tokens(forced_bytes)] = True
        return mask

    def _range(self, prefix: bytes) -> tuple[int, int]:
        first = bisect_left(self._keys, prefix)
        end = _after(prefix)
        return first, len(self._keys) if end is None else bisect_left(self._keys, end)


def _after(prefix: bytes) -> bytes | None:
    """The least byte string above every one that starts with prefix; None when there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def _is_word(spelled: bytes) -> bool:
    # Bytes from 0x80 on are parts of letters far more often than not.
    return bool(spelled) and all(byte >= 0x80 or byte == 0x5F or chr(byte).isalnum() for byte in spelled)


def _is_sign(spelled: bytes) -> bool:
    return len(spelled) == 1 and spelled not in b"\r\n" and not _is_word(spelled)


def _is_signed_word(spelled: bytes) -> bool:
    return _is_sign(spelled[:1]) and _is_word(spelled[1:])
