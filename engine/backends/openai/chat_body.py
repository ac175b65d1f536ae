"""A chat in the words of OpenAI's API.

Not sent: `session` and `priority`, which order work on this machine and change no answer.
"""

from __future__ import annotations

from engine.backends.openai.constraints import constraint_fields
from engine.backends.openai.dialects import Dialect
from engine.backends.openai.sampling import cannot, sampling_fields
from engine.errors import RequestError
from engine.types import ChatMessage, ChatRequest, Tool, ToolChoice


def chat_body(request: ChatRequest, model: str, dialect: Dialect, remote: str) -> dict[str, object]:
    """The body of POST /v1/chat/completions. Raises RequestError for what the server cannot do."""
    body: dict[str, object] = {
        "model": model,
        "messages": messages(request, dialect, remote),
        dialect.max_tokens: request.max_tokens,
        **sampling_fields(request.sampling, dialect, remote),
        **stream_fields(dialect),
    }
    if request.stop:
        body["stop"] = list(request.stop)
    if not request.tools and request.tool_choice in (ToolChoice.REQUIRED, ToolChoice.NAMED):
        raise RequestError("The request asks for a tool call and offers no tools.")
    if request.tools:
        body["tools"] = tools(request)
        body["tool_choice"] = _tool_choice(request)
        body["parallel_tool_calls"] = request.parallel_tool_calls
    if request.constraint is not None:
        body |= constraint_fields(request.constraint, dialect, remote, chat=True)
    if request.top_logprobs is not None:
        body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    return body | thinking_fields(request, dialect, remote)


def stream_fields(dialect: Dialect) -> dict[str, object]:
    """What asks for a stream, and for token counts in it."""
    options = {"include_usage": True}
    if dialect.running_usage:
        options["continuous_usage_stats"] = True
    return {"stream": True, "stream_options": options}


def messages(request: ChatRequest, dialect: Dialect, remote: str) -> list[dict[str, object]]:
    """The chat so far. Raises RequestError when reasoning cannot be given back."""
    return [_message(message, dialect, remote) for message in request.messages]


def tools(request: ChatRequest) -> list[dict[str, object]]:
    return [{"type": "function", "function": _function(tool)} for tool in request.tools]


def thinking_fields(request: ChatRequest, dialect: Dialect, remote: str) -> dict[str, object]:
    """The switch and the budget of reasoning. Raises RequestError where the server has none."""
    fields: dict[str, object] = {}
    budget_is_switch = dialect.thinking_budget == "thinking"  # as in Anthropic's API
    if request.thinking and request.thinking_optional and (budget_is_switch or not dialect.thinking):
        return fields  # it would be refused for a model that does not think; the model's template decides
    if request.thinking is not None:
        if not dialect.thinking:
            raise cannot(remote, "switching thinking on or off")
        fields["chat_template_kwargs"] = {"enable_thinking": request.thinking}
    if request.thinking_budget is not None:
        if not dialect.thinking_budget:
            raise cannot(remote, "a budget for thinking")
        if budget_is_switch:
            fields["thinking"] = {"type": "enabled", "budget_tokens": request.thinking_budget}
        else:
            fields[dialect.thinking_budget] = request.thinking_budget
    return fields


def _message(message: ChatMessage, dialect: Dialect, remote: str) -> dict[str, object]:
    told: dict[str, object] = {"role": message.role, "content": message.content}
    if message.tool_call_id:
        told["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        told["content"] = message.content or None
        told["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.reasoning:
        if not dialect.reasoning:
            raise cannot(remote, "taking back the reasoning of earlier messages")
        told[dialect.reasoning] = message.reasoning
    return told


def _function(tool: Tool) -> dict[str, object]:
    function: dict[str, object] = {"name": tool.name, "parameters": dict(tool.parameters)}
    return {**function, "description": tool.description} if tool.description else function


def _tool_choice(request: ChatRequest) -> object:
    if request.tool_choice is ToolChoice.NAMED:
        return {"type": "function", "function": {"name": request.named_tool}}
    return request.tool_choice.value
