"""The few operations that the generation loop needs from whatever computes logits."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.backends.pooling import Pooling


class KvPages(Protocol):
    """Copies of KV pages, out of the pool and into it; the same thread rule as for the backend.

    A page holds `page_tokens` positions, counted from the start of a sequence, in `page_bytes` bytes. Its
    bytes depend on the model, `kv_format` and the tokens up to the page's end alone.
    """

    @property
    def page_tokens(self) -> int: ...

    @property
    def page_bytes(self) -> int: ...

    @property
    def kv_format(self) -> str: ...

    def read_pages(self, seq: int, first_page: int, count: int) -> NDArray[np.uint8]:
        """A copy of whole pages of a sequence, shape (count, page_bytes)."""
        ...

    def append_pages(self, seq: int, pages: NDArray[np.uint8]) -> None:
        """Continue a sequence, whose length is at a page's border, with pages that `read_pages` gave.

        Raises MemoryError when the page pool is full; the sequence is then as before.
        """
        ...


class HiddenStates(Protocol):
    """What logits are made from, for vectors of texts; the same rules as for the backend."""

    @property
    def pooling(self) -> Pooling:
        """How the states of a text become its vector."""
        ...

    def forward_hidden(
        self,
        seqs: NDArray[np.int32],
        tokens: NDArray[np.int32],
        want_logits: NDArray[np.bool_],
        want_hidden: NDArray[np.bool_],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """As `Backend.forward`; beside the logits, states after the final norm of the rows that want them.

        Those have the shape (want_hidden.sum(), embedding length).
        """
        ...


class Backend(Protocol):
    """A loaded model with a paged KV cache shared by several sequences.

    Used from one thread at a time, `cancel` excepted. A sequence is a small integer; its length is the
    number of tokens whose keys and values it holds. Logits of a row depend on its own sequence's tokens
    alone, bit for bit: never on the rows beside it, nor on how a prompt was cut into calls.
    """

    @property
    def name(self) -> str:
        """The model, for people."""
        ...

    @property
    def kernels(self) -> str:
        """The instruction set that runs."""
        ...

    @property
    def threads(self) -> int: ...

    @property
    def n_vocab(self) -> int: ...

    @property
    def context_tokens(self) -> int:
        """The longest sequence, prompt and generated tokens together."""
        ...

    @property
    def kv_tokens(self) -> int:
        """Capacity of the page pool in tokens; at least context_tokens."""
        ...

    @property
    def free_tokens(self) -> int:
        """What is left of kv_tokens, in whole pages."""
        ...

    @property
    def kv_pages(self) -> KvPages | None:
        """Access to single pages; None for a back end that has none."""
        ...

    @property
    def hidden_states(self) -> HiddenStates | None:
        """Access to hidden states; None for a model that makes no vectors."""
        ...

    def new_sequence(self) -> int: ...

    def free_sequence(self, seq: int) -> None: ...

    def fork_sequence(self, seq: int, length: int) -> int:
        """A new sequence that begins with the first `length` tokens of `seq`.

        Raises MemoryError when the page pool is full.
        """
        ...

    def truncate(self, seq: int, length: int) -> None:
        """Forget all but the first `length` tokens of a sequence."""
        ...

    def forward(
        self, seqs: NDArray[np.int32], tokens: NDArray[np.int32], want_logits: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """Append tokens[i] to sequence seqs[i], rows of one sequence in order.

        Returns the logits of the wanted rows, shape (want_logits.sum(), n_vocab).
        Raises InterruptedError when cancelled and MemoryError when the page pool is full; either way the
        sequences are as they were before the call.
        """
        ...

    def cancel(self) -> None:
        """From any thread: the forward that runs now stops soon; without one, nothing happens."""
        ...

    def close(self) -> None:
        """Free the model. No other call may follow, `cancel` excepted."""
        ...
