"""What crosses the border between the language server and the engine: plain, immutable values.

Nothing here knows of tokens' ids, tensors or back ends, so the same values travel in process today
and over the resident service's socket later.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
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
    TOOL_CALLS = "tool_calls"  # a chat message ended with at least one whole tool call
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
    timeout_s: seconds within which it must have ended, the wait for the model included; None for no limit. A
        generation that has begun by then ends with what it has, for the reason LENGTH.
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
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """Continue a text as it is, with no format around it.

    prompt: text, encoded with special tokens off, or token ids.
    top_logprobs: None for no log probabilities; else how many alternatives each token's entry lists.
    timeout_s: as in InfillRequest.
    """

    prompt: str | tuple[int, ...]
    session: str = ""
    max_tokens: int = 16
    sampling: SamplingParams = field(default_factory=SamplingParams)
    stop: tuple[str, ...] = ()
    constraint: Constraint | None = None
    top_logprobs: int | None = None
    priority: Priority = Priority.CHAT
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of an assistant message; arguments is JSON text, as the model or the client wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a chat; role is system, user, assistant or tool.

    reasoning, tool_calls: of assistant messages.
    tool_call_id: of tool messages, the call that this is the result of.
    """

    role: str
    content: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


class ToolChoice(StrEnum):
    """Whether the message calls tools."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"  # at least one call
    NAMED = "named"  # a call of ChatRequest.named_tool


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call; parameters is a JSON schema of its arguments object."""

    name: str
    description: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)


class ConstraintKind(StrEnum):
    """Languages in which output can be constrained."""

    JSON_OBJECT = "json_object"  # any JSON object; source is ""
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"


@dataclass(frozen=True, slots=True)
class Constraint:
    """What the output must match as a whole; source is text in the language of kind."""

    kind: ConstraintKind
    source: str = ""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Continue a chat with one assistant message.

    named_tool: the one tool that must be called when tool_choice is NAMED.
    parallel_tool_calls: whether the message may hold several calls.
    constraint: what the content must match; reasoning before it is free.
    thinking: None leaves it to the model's template.
    thinking_optional: with thinking on, a model that cannot reason answers without it instead of refusing.
    thinking_budget: the most reasoning tokens; then the reasoning is closed in time for the reply.
    top_logprobs: as in CompletionRequest.
    timeout_s: as in InfillRequest.
    """

    messages: tuple[ChatMessage, ...]
    session: str = ""
    max_tokens: int = 512
    sampling: SamplingParams = field(default_factory=SamplingParams)
    stop: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    named_tool: str = ""
    parallel_tool_calls: bool = True
    constraint: Constraint | None = None
    thinking: bool | None = None
    thinking_optional: bool = False
    thinking_budget: int | None = None
    top_logprobs: int | None = None
    priority: Priority = Priority.CHAT
    timeout_s: float | None = None


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
class TokenLogprob:
    """A token, its bytes (perhaps part of a character) and its natural-log probability before temperature.

    top: the likeliest tokens in its place, likeliest first, itself perhaps among them; their `top` is empty.
    """

    # For the way through JSON, by pydantic: a token need not be UTF-8.
    __pydantic_config__ = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}  # noqa: RUF012

    token: int
    bytes: builtins.bytes
    logprob: float
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of generated text: whole Unicode characters only, never part of one.

    logprob: summed natural-log probability of the tokens in this piece under the target (before temperature).
    tokens: how many tokens this piece accounts for (0 is possible while a character is incomplete).
    finish: set on the last piece of a stream, None before.
    timing: set on the first piece, so that queue and prefill are known also of a stream that is closed early,
        and on the last; None between.
    logprobs: the piece's tokens one by one, where the request asked for them.
    stop: on the last piece, the request's stop string that ended the stream; "" when none did.
    """

    text: str
    tokens: int = 1
    logprob: float = 0.0
    finish: FinishReason | None = None
    timing: Timing | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    stop: str = ""


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call; index counts the message's calls, id and name come whole in its first piece."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class ChatDelta:
    """A piece of an assistant message: content, reasoning, pieces of tool calls, or just its end.

    tokens, logprobs, finish, timing, stop: as in TextDelta; logprobs cover content alone.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    tokens: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()
    finish: FinishReason | None = None
    timing: Timing | None = None
    stop: str = ""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """A snapshot for status bars, budgets and `hearth.explain`.

    state: "loading", "ready", "busy" or "failed"; or "unloaded", when the next request loads the model.
    tool_format: how the model was taught to spell tool calls ("hermes", "qwen3_coder", "json"), or "".
    thinks: whether the model can reason before it answers.
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
    tool_format: str = ""
    thinks: bool = False
    prefill_tps: float = 0.0
    decode_tps: float = 0.0
    message: str = ""
