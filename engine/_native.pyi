"""Types of the C++ extension (native/binding). Shapes are (rows, columns); arrays are C-contiguous."""

from collections.abc import Callable, Sequence
from os import PathLike

import numpy as np
from numpy.typing import NDArray

class GgufError(ValueError):
    """The file is not a GGUF that can be used; the message names the field, offset and limit."""

class TensorInfo:
    name: str
    type: str  # "F32", "Q4_K", ...
    shape: tuple[int, ...]  # ggml order: shape[0] is the contiguous dimension
    offset: int  # bytes from the start of the file
    nbytes: int

class GgufFile:
    """A GGUF file, mapped read-only as long as this lives; every length and offset is checked on opening.

    Raises GgufError (malformed or unsupported), OSError (cannot be opened).
    """

    def __init__(self, path: str | PathLike[str]) -> None: ...
    @property
    def path(self) -> str: ...
    @property
    def tensors(self) -> list[TensorInfo]: ...
    def keys(self) -> list[str]: ...
    def get(self, key: str) -> object:
        """The value as int, float, bool, str, or list of these; None when the key is absent.

        String arrays come as list[bytes] (tokens are not always UTF-8); a str value is decoded with
        errors="replace".
        """
    def tensor(self, name: str) -> NDArray[np.float32]:
        """The tensor dequantised to float32; its shape is `TensorInfo.shape` reversed.

        Raises KeyError, GgufError when another program wrote to the file since it was opened.
        """

class Model:
    """Weights repacked for this machine's kernels, and the graph that runs them.

    The GgufFile may go; only an embedding that the output does not share is still read, row by row, from the
    file itself.

    cancelled: asked before each tensor, on the calling thread; what it raises ends the load.
    Raises GgufError when the architecture, a tensor or a hyperparameter is missing or unsupported, or when
    another program wrote to the file since it was opened; Cancelled when `cancelled` says so.
    """

    def __init__(
        self, gguf: GgufFile, *, isa: str = "auto", cancelled: Callable[[], bool] | None = None
    ) -> None: ...
    @property
    def architecture(self) -> str: ...
    @property
    def n_vocab(self) -> int: ...
    @property
    def n_layers(self) -> int: ...
    @property
    def n_context_train(self) -> int: ...
    @property
    def isa(self) -> str: ...

class Cancelled(InterruptedError):
    """`Engine.cancel` stopped the forward pass, or `cancelled` a load."""

class OutOfPages(MemoryError):
    """The KV cache has no free page left."""

class Engine:
    """A model with a thread pool and a paged KV cache. Used from one thread at a time, `cancel` excepted:
    a second thread gets a RuntimeError.

    kv_tokens: capacity of the page pool, in tokens, shared by all sequences.
    threads: worker count, the calling thread included.
    kv_format: "f16", or "f32" (exact, twice the memory).
    Raises ValueError for options out of range, MemoryError, OSError when the system gives no more threads.
    """

    def __init__(self, model: Model, *, kv_tokens: int, threads: int, kv_format: str = "f16") -> None: ...
    @property
    def kv_format(self) -> str: ...
    def new_sequence(self) -> int: ...
    def free_sequence(self, seq: int) -> None: ...
    def fork_sequence(self, seq: int, length: int) -> int:
        """A new sequence that shares the first `length` positions (whole pages shared, the rest copied)."""
    def truncate(self, seq: int, length: int) -> None:
        """Forget positions >= length."""
    def length(self, seq: int) -> int: ...
    @property
    def free_tokens(self) -> int:
        """Positions that free pages still hold."""
    @property
    def free_pages(self) -> int: ...
    @property
    def page_tokens(self) -> int:
        """Positions of a page."""
    @property
    def page_bytes(self) -> int:
        """Bytes of a page: keys and values of all layers and heads."""
    def read_pages(self, seq: int, first_page: int, count: int) -> NDArray[np.uint8]:
        """A copy of whole pages, shape (count, page_bytes).

        Raises ValueError when the sequence does not have them, filled to their last position.
        """
    def append_pages(self, seq: int, pages: NDArray[np.uint8]) -> None:
        """Continue a sequence with pages from `read_pages`, of any engine over the same model and format.

        pages: shape (n, page_bytes). Raises TypeError for another kind of array, ValueError for another size
        or when the sequence ends within a page, OutOfPages; the sequence is then as before.
        """
    def forward(
        self,
        seqs: NDArray[np.int32],
        tokens: NDArray[np.int32],
        want_logits: NDArray[np.bool_],
    ) -> NDArray[np.float32]:
        """Append tokens[i] to sequence seqs[i] (rows of one sequence in order) and run the graph once.

        Returns logits, shape (want_logits.sum(), n_vocab). GIL released. Arrays of another type or not
        contiguous are a TypeError: nothing is converted. Raises Cancelled (an
        InterruptedError), OutOfPages (a MemoryError) when the page pool is full, ValueError for ids out of
        range or rows of one sequence that are not adjacent, GgufError when another program has written to the
        model file and rows must be read from it; the sequences are then as before the call.
        """
    def forward_hidden(
        self,
        seqs: NDArray[np.int32],
        tokens: NDArray[np.int32],
        want_logits: NDArray[np.bool_],
        want_hidden: NDArray[np.bool_],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """As `forward`; beside the logits, hidden states: what logits are made from, after the final norm.

        Returns (logits, hidden), hidden of shape (want_hidden.sum(), embedding length). A row may want both.
        """
    def cancel(self) -> None:
        """From any thread: the running (or, if none runs, no) forward stops within one layer."""

def isas() -> list[str]:
    """Instruction sets that this machine can run, best first; always ends with "scalar"."""

def quant_types() -> Sequence[str]: ...
def architectures() -> list[str]:
    """Values of general.architecture that this engine runs."""
