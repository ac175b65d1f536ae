"""What crosses the border between the language server and the engine: plain, immutable values.

Nothing here knows of tokens' ids, tensors or back ends, so the same values travel in process today
and over the resident service's socket later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum


class Priority(IntEnum):
    """Scheduling class; a smaller number runs first."""

    COMPLETION = 0
    CHAT = 1
    BACKGROUND = 2


class FinishReason(StrEnum):
    """Why a generation ended."""

    STOP = "stop"  # the model ended by itself (end-of-text, end-of-middle or a stop string)
    LENGTH = "length"  # max_tokens reached
    CANCELLED = "cancelled"  # the consumer closed the stream


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How a token is drawn. The defaults are greedy decoding.

    temperature: 0 is greedy; otherwise logits are divided by it.
    top_k: keep the k most likely tokens; 0 keeps all.
    top_p: keep the smallest set whose probability reaches p; 1 keeps all.
    min_p: drop tokens less likely than min_p times the most likely one; 0 keeps all.
    repetition_penalty: divides (positive) or multiplies (negative) logits of tokens already seen; 1 is off.
    presence_penalty, frequency_penalty: subtracted once, and once per occurrence; 0 is off.
    penalty_window: how many of the latest tokens the penalties look at.
    seed: draws are reproducible for a given seed; None draws a fresh one.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_window: int = 64
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class ContextFile:
    """Another file of the workspace that the prompt may show; path is relative to the workspace, with '/'."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class InfillRequest:
    """Fill the hole between prefix and suffix of one document.

    prefix, suffix: the document's text before and after the cursor, line ends already LF. They may be
        clipped far from the cursor by the caller; the engine clips further, to prompt_budget.
    path: the document's path relative to its workspace, or "" (shown to models with a repository format).
    context: other files, slowest-changing first; the order is kept, so that the KV prefix survives.
    session: requests of one session (one document) share a warm KV prefix.
    max_tokens: the most tokens to generate.
    prompt_budget: the most prompt tokens to use; None lets the engine choose from its measured speed.
    stop: strings that end the generation; the string itself is not part of the output.
    """

    prefix: str
    suffix: str
    path: str = ""
    context: tuple[ContextFile, ...] = ()
    session: str = ""
    max_tokens: int = 64
    prompt_budget: int | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    stop: tuple[str, ...] = ()
    priority: Priority = Priority.COMPLETION


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a chat; role is system, user, assistant or tool."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Continue a chat with one assistant message."""

    messages: tuple[ChatMessage, ...]
    session: str = ""
    max_tokens: int = 512
    sampling: SamplingParams = field(default_factory=SamplingParams)
    stop: tuple[str, ...] = ()
    priority: Priority = Priority.CHAT


@dataclass(frozen=True, slots=True)
class Timing:
    """Where the time of one request went.

    prompt_tokens: length of the whole prompt; cached_tokens of them were already in the KV cache.
    queue_s, prefill_s, decode_s: wall-clock seconds.
    generated_tokens: tokens drawn, the ending one included.
    """

    prompt_tokens: int
    cached_tokens: int
    queue_s: float
    prefill_s: float
    decode_s: float
    generated_tokens: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of generated text: whole Unicode characters only, never part of one.

    logprob: summed natural-log probability of the tokens in this piece under the target (before temperature).
    tokens: how many tokens this piece accounts for (0 is possible while a character is incomplete).
    finish: set on the last piece of a stream, None before.
    timing: set on the first piece, so that queue and prefill are known also of a stream that is closed early,
        and on the last; None between.
    """

    text: str
    tokens: int = 1
    logprob: float = 0.0
    finish: FinishReason | None = None
    timing: Timing | None = None


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """A snapshot for status bars, budgets and `hearth.explain`.

    state: "loading", "ready", "busy" or "failed".
    prefill_tps, decode_tps: measured tokens per second on this machine (0 until first measured).
    kernels: the instruction set that runs ("scalar", "avx2", "avx512-vnni", ...).
    message: for a person; why loading or failed, "" when all is well.
    """

    state: str
    model: str = ""
    kernels: str = ""
    threads: int = 0
    context_tokens: int = 0
    supports_infill: bool = False
    prefill_tps: float = 0.0
    decode_tps: float = 0.0
    message: str = ""
