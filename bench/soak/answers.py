"""What a request was answered, in a form in which the answers of two engines can be compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.types import ChatDelta, TextDelta

# These differ from one daemon, or one moment, to the next.
_PASSING = frozenset(
    {
        "id",
        "call_id",
        "item_id",
        "created",
        "created_at",
        "completed_at",
        "timings",
        "tokens_cached",
        "usage",
        "retry_after",
    }
)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer or a part of one; parts are added.

    text: the content. more: tool calls and log probabilities, in the order written.
    end: why it ended, or the whole answer where it is no stream of text; "" when it was cut short.
    """

    text: str = ""
    more: str = ""
    end: str = ""

    def __add__(self, later: Answer) -> Answer:
        return Answer(self.text + later.text, self.more + later.more, self.end + later.end)

    def agrees_with(self, cold: Answer) -> bool:
        """Whether this is that answer, or, cut short, its beginning."""
        if self.end:
            return self == cold
        return cold.text.startswith(self.text) and cold.more.startswith(self.more)


def of_delta(delta: TextDelta | ChatDelta) -> Answer:
    """A piece from Hearth's own client."""
    more = ""
    if isinstance(delta, TextDelta):
        more = f"{delta.tokens} {delta.logprob!r};"
    else:
        more = "".join(call.name + call.arguments for call in delta.tool_calls) + delta.reasoning
    return Answer(delta.text, more, delta.finish.value if delta.finish is not None else "")


def of_json(value: Any) -> Answer:
    """An answer that comes whole."""
    return Answer(end=json.dumps(_lasting(value), sort_keys=True))


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lasting(inner) for key, inner in value.items() if key not in _PASSING}
    return [_lasting(inner) for inner in value] if isinstance(value, list) else value


def _openai_completion(event: dict[str, Any]) -> Answer:
    (choice,) = event["choices"]
    listed = choice["logprobs"] or {"tokens": [], "token_logprobs": []}
    pairs = zip(listed["tokens"], listed["token_logprobs"], strict=True)
    more = "".join(f"{token!r} {logprob!r};" for token, logprob in pairs)
    return Answer(choice["text"], more, choice["finish_reason"] or "")


def _openai_chat(event: dict[str, Any]) -> Answer:
    (choice,) = event["choices"]
    delta = choice["delta"]
    functions = [call["function"] for call in delta.get("tool_calls") or []]
    more = "".join(function.get("name", "") + function.get("arguments", "") for function in functions)
    return Answer(delta.get("content") or "", more, choice["finish_reason"] or "")


def _openai_response(event: dict[str, Any]) -> Answer:
    match event["type"]:
        case "response.output_text.delta":
            return Answer(event["delta"])
        case "response.function_call_arguments.delta":
            return Answer(more=event["delta"])
        case "response.completed" | "response.incomplete":
            return Answer(end=event["response"]["status"])
    return Answer()


def _anthropic(event: dict[str, Any]) -> Answer:
    match event["type"]:
        case "content_block_delta":
            delta = event["delta"]
            return Answer(delta.get("text", ""), delta.get("partial_json", ""))
        case "content_block_start":
            return Answer(more=event["content_block"].get("name", ""))
        case "message_delta":
            return Answer(end=event["delta"]["stop_reason"])
    return Answer()


def _llama_cpp(event: dict[str, Any]) -> Answer:
    return Answer(event["content"], end=event["stop_type"] if event["stop"] else "")


EVENTS: dict[str, Callable[[dict[str, Any]], Answer]] = {
    "/v1/completions": _openai_completion,
    "/v1/chat/completions": _openai_chat,
    "/v1/responses": _openai_response,
    "/v1/messages": _anthropic,
    "/infill": _llama_cpp,
}
"""How an event of a route's stream is read."""
