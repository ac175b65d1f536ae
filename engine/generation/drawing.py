"""Drawing a token: under a constraint, and with log probabilities, where the request wants them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.constraints import Matcher
from engine.errors import RequestError
from engine.sampling import Sampler, logprob, top_logprobs
from engine.tokenizer.stream import TokenBytes
from engine.types import TokenLogprob

MAX_TOP_LOGPROBS = 100


class TokenDrawer:
    """Draws the tokens of one generation.

    matcher: what the next tokens must match, or None; it may be exchanged while nothing is drawn.
    top: how many alternatives each token's log probability lists; None for no log probabilities.
    spelled: gives the bytes of tokens in them.
    """

    def __init__(
        self,
        sampler: Sampler,
        spelled: TokenBytes,
        *,
        matcher: Matcher | None = None,
        top: int | None = None,
    ) -> None:
        """Raises RequestError for too many alternatives."""
        if top is not None and not 0 <= top <= MAX_TOP_LOGPROBS:
            raise RequestError(
                f"top_logprobs is {top}; it must be between 0 and {MAX_TOP_LOGPROBS}.",
                action="Set top_logprobs to a value in that range.",
            )
        self._sampler = sampler
        self._spelled = spelled
        self._top = top
        self.matcher = matcher

    def draw(self, logits: NDArray[np.float32], history: Sequence[int]) -> tuple[int, float]:
        """The next token and its natural-log probability under softmax(logits).

        logits: shape (n_vocab,). Raises HearthError when nothing can be drawn.
        """
        if self.matcher is None:
            drawn = self._sampler.sample(logits, history)
            return drawn.token, drawn.logprob or 0.0
        token = self._constrained(self.matcher, logits, history)
        self.matcher.accept(token)
        return token, logprob(logits, token)

    def force(self, logits: NDArray[np.float32], token: int) -> tuple[int, float]:
        """As `draw`, for a token that is decided already."""
        if self.matcher is not None:
            self.matcher.accept(token)
        return token, logprob(logits, token)

    def entry(self, logits: NDArray[np.float32], token: int) -> tuple[TokenLogprob, ...]:
        """The drawn token's log probabilities, if they are wanted: the model's own, before any constraint."""
        if self._top is None:
            return ()
        alternatives = [
            TokenLogprob(other, self._spelled.token_bytes(other), value)
            for other, value in top_logprobs(logits, self._top)
        ]
        spelled = self._spelled.token_bytes(token)
        return (TokenLogprob(token, spelled, logprob(logits, token), tuple(alternatives)),)

    def _constrained(self, matcher: Matcher, logits: NDArray[np.float32], history: Sequence[int]) -> int:
        if self._sampler.is_greedy:
            # The likeliest token of all is the likeliest of the allowed ones, if it is allowed; and to ask
            # for one costs a fraction of the mask of all.
            token = self._sampler.sample(logits, history, want_logprob=False).token
            if matcher.allows(token):
                return token
        return self._sampler.sample(matcher.restrict(logits), history, want_logprob=False).token
