"""The state of one request, from its prompt to its last piece of text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import HearthError
from engine.generation.disk_tier import Restore
from engine.generation.pooling import PooledText
from engine.types import FinishReason, Priority, TextDelta, Timing


@dataclass(frozen=True, slots=True)
class Drawn:
    """What one row of logits became: a token, the text that is now certain, and why it ends here, if so."""

    token: int
    text: str
    logprob: float
    finish: FinishReason | None = None


class Output(Protocol):
    """Turns rows of logits into tokens and tokens into text; one per request (`output.TextOutput`)."""

    def draw(self, logits: NDArray[np.float32], history: list[int]) -> Drawn:
        """Draw the token that follows `history` (prompt included). logits: (n_vocab,).

        Raises HearthError when nothing can be drawn, which ends this request alone.
        """
        ...

    def flush(self) -> str:
        """The text still held back, when the request ends before a stop rule decides on it."""
        ...


Event = TextDelta | HearthError


@dataclass(eq=False, slots=True)
class Sequence:
    """One request.

    prompt: token ids, at least one.
    max_tokens: the most tokens to generate; 0 only prefills (and then output is None).
    session: sequences of one session continue each other's KV cache; "" for none.
    emit: takes each TextDelta, and in the end exactly one that has `finish` set, or else one HearthError.
        Called on the engine thread.
    deadline: when the request must have ended, as a reading of time.perf_counter; None for no limit. One that
        has generated something by then ends with it, for the reason LENGTH; else by a DeadlineExceeded.
    pooled: takes the hidden states of all tokens, for a text whose vector is wanted; such a request takes no
        keys and values from others, and leaves none.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    priority: Priority
    session: str
    emit: Callable[[Event], None]
    output: Output | None = None
    deadline: float | None = None
    pooled: PooledText | None = None

    # Set from any thread; a plain bool is enough, as it only ever turns true.
    cancelled: bool = False

    # Set on the engine thread: all tokens so far, the backend's sequence that holds the first `computed`
    # of them, and how many came from the prefix cache when the request first ran.
    tokens: list[int] = field(init=False)
    prompt_ids: NDArray[np.int32] = field(init=False)  # set once the prompt is known to be token ids
    kv: int | None = None
    computed: int = 0
    cached: int = 0

    # Its prefix on the way from the disk; the sequence does not run meanwhile.
    restore: Restore | None = None
    restoring_since: float = 0.0

    # When it last ran (or arrived), and the number of the step in which it last prefilled.
    last_run: float = 0.0
    turn: int = 0

    # Clock readings, in seconds; 0.0 until reached.
    arrived: float = 0.0
    started: float = 0.0
    decoding: float = 0.0

    # Tokens drawn since the last TextDelta.
    unsent_tokens: int = 0
    unsent_logprob: float = 0.0

    def __post_init__(self) -> None:
        self.tokens = list(self.prompt)

    @property
    def pending(self) -> int:
        """Tokens whose keys and values are still to be computed; 1 while decoding."""
        return len(self.tokens) - self.computed

    @property
    def generated(self) -> int:
        return len(self.tokens) - len(self.prompt)

    @property
    def decodes(self) -> bool:
        """Whether its next row is one token that gives the next."""
        return self.kv is not None and self.pending == 1

    @property
    def prefill_only(self) -> bool:
        return self.output is None

    def timing(self, now: float) -> Timing:
        """Where the time went until `now`."""
        started = self.started or now
        decoding = self.decoding or now
        return Timing(
            prompt_tokens=len(self.prompt),
            cached_tokens=self.cached,
            queue_s=started - self.arrived,
            prefill_s=decoding - started,
            decode_s=now - decoding,
            generated_tokens=self.generated,
        )
