"""What servers understand beside OpenAI's own API, as a table: what is not in it is refused, not dropped.

Sources: vLLM's "OpenAI-Compatible Server" and "Structured Outputs" pages and its request classes
(vllm/entrypoints/openai); SGLang's "OpenAI APIs" pages and its request classes
(sglang/srt/entrypoints/openai/protocol.py); docs/api.md for Hearth.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Server(StrEnum):
    """Kinds of servers."""

    VLLM = "vllm"
    SGLANG = "sglang"
    HEARTH = "hearth"
    OPENAI = "openai"  # any other: only what OpenAI documents is sent


class Structured(StrEnum):
    """How a regular expression, grammar, or a constraint of a completion is said."""

    NONE = "none"
    OBJECT = "object"  # one object, `structured_outputs`
    FIELDS = "fields"  # fields of the request's own: regex, json_schema


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one kind of server takes.

    sampling_extras: top_k, min_p, repetition_penalty. They are sent also when they are off, for a server
        may have other defaults (the model's generation_config.json).
    top_k_off: the value that keeps all tokens; None where the field is then left out.
    stop_token_ids: whether tokens may end the text.
    token_logprobs: whether log probabilities are asked for with fill-in-the-middle, which judge suggestions.
    running_usage: whether `stream_options.continuous_usage_stats` gives token counts with each piece.
    tokenizer: whether POST /tokenize and /detokenize are there; detokenized: the answer's field.
    counts_chats: whether /tokenize takes messages.
    literal_text: the text of a completion can never become control tokens there.
    thinking: whether `chat_template_kwargs.enable_thinking` is understood.
    thinking_budget: the field that limits reasoning; "" where there is none.
    reasoning: the field of an assistant's message that gives its reasoning back; "" where there is none.
    max_tokens: the name of that field in chats.
    """

    sampling_extras: bool = False
    top_k_off: int | None = None
    stop_token_ids: bool = False
    token_logprobs: bool = False
    running_usage: bool = False
    structured: Structured = Structured.NONE
    grammar: bool = False
    tokenizer: bool = False
    detokenized: str = ""
    counts_chats: bool = False
    literal_text: bool = False
    thinking: bool = False
    thinking_budget: str = ""
    reasoning: str = ""
    max_tokens: str = "max_tokens"


DIALECTS: dict[Server, Dialect] = {
    Server.VLLM: Dialect(
        sampling_extras=True,
        top_k_off=-1,
        stop_token_ids=True,
        token_logprobs=True,
        running_usage=True,
        structured=Structured.OBJECT,
        grammar=True,
        tokenizer=True,
        detokenized="prompt",
        counts_chats=True,
        thinking=True,
        thinking_budget="thinking_token_budget",
        reasoning="reasoning",
    ),
    Server.SGLANG: Dialect(
        sampling_extras=True,
        top_k_off=-1,
        stop_token_ids=True,
        token_logprobs=True,
        running_usage=True,
        structured=Structured.FIELDS,
        tokenizer=True,
        detokenized="text",
        thinking=True,
        reasoning="reasoning_content",
    ),
    Server.HEARTH: Dialect(
        sampling_extras=True,
        top_k_off=0,
        literal_text=True,
        thinking=True,
        thinking_budget="thinking",
        reasoning="reasoning_content",
    ),
    Server.OPENAI: Dialect(max_tokens="max_completion_tokens"),
}
