"""The body of a chat, and the engine's request that it means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.service.http.fields import (
    MAX_TOOLS,
    Ignored,
    Schema,
    Stop,
    Stops,
    Strict,
    Tokens,
    Unsupported,
    schema_constraint,
    stops,
)
from engine.service.http.openai.chat_messages import Message, to_message
from engine.service.http.openai.fields import Choices, Effort, Sampled, StreamOptions, TopLogprobs
from engine.service.http.openai.tools import FunctionTool, ToolChoiceField, chosen_tools
from engine.service.http.problems import BadField
from engine.service.http.settings import Defaults
from engine.service.http.thinking import ThinkingSwitch, thinking_of
from engine.types import ChatRequest, Constraint, ConstraintKind


class TextFormat(Strict):
    type: Literal["text"]


class JsonObjectFormat(Strict):
    type: Literal["json_object"]


class JsonSchema(Strict):
    name: str
    description: Ignored = None
    schema_: Annotated[Schema, Field(alias="schema", default_factory=dict)]
    strict: Ignored = None


class JsonSchemaFormat(Strict):
    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")]


class TemplateOptions(Strict):
    enable_thinking: bool | None = None


class ChatBody(Sampled):
    messages: Annotated[list[Message], Field(min_length=1)]
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    n: Choices | None = None
    stop: Stop | Stops | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoiceField | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: Effort | None = None
    chat_template_kwargs: TemplateOptions | None = None
    thinking: ThinkingSwitch | None = None
    modalities: list[Literal["text"]] | None = None
    metadata: Ignored = None
    prompt_cache_key: Ignored = None
    prompt_cache_options: Ignored = None
    prompt_cache_retention: Ignored = None
    safety_identifier: Ignored = None
    service_tier: Literal["auto", "default"] | None = None
    store: Unsupported = None
    audio: Unsupported = None
    function_call: Unsupported = None
    functions: Unsupported = None
    moderation: Unsupported = None
    prediction: Unsupported = None
    verbosity: Unsupported = None
    web_search_options: Unsupported = None

    def request(self, defaults: Defaults) -> ChatRequest:
        """Raises BadField for fields that do not go together."""
        if self.top_logprobs is not None and not self.logprobs:
            raise BadField("top_logprobs", "Only for a request with logprobs: true.")
        if self.stream_options is not None and not self.stream:
            raise BadField("stream_options", "Only for a request with stream: true.")
        if None not in (self.max_tokens, self.max_completion_tokens):
            raise BadField("max_tokens", "Give it or max_completion_tokens, not both.")
        options = self.chat_template_kwargs
        thinking = thinking_of(
            defaults,
            switch=self.thinking,
            enabled=options.enable_thinking if options is not None else None,
            effort=self.reasoning_effort,
        )
        tools = tuple(tool.function.tool() for tool in self.tools or ())
        chosen = chosen_tools(self.tool_choice, tools)
        return ChatRequest(
            messages=tuple(to_message(message) for message in self.messages),
            max_tokens=self.max_completion_tokens or self.max_tokens or defaults.max_tokens,
            sampling=self.params(defaults),
            stop=stops(self.stop),
            tools=chosen.tools,
            tool_choice=chosen.choice,
            named_tool=chosen.named,
            parallel_tool_calls=self.parallel_tool_calls is not False,
            constraint=self._constraint(),
            thinking=thinking.on,
            thinking_optional=thinking.optional,
            thinking_budget=thinking.budget,
            top_logprobs=(self.top_logprobs or 0) if self.logprobs else None,
        )

    def _constraint(self) -> Constraint | None:
        match self.response_format:
            case JsonObjectFormat():
                return Constraint(ConstraintKind.JSON_OBJECT)
            case JsonSchemaFormat(json_schema=wanted):
                return schema_constraint(wanted.schema_, "response_format.json_schema.schema")
            case _:
                return None
