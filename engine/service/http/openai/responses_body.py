"""The body of a response: what the Responses API calls a chat's next message."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.service.http.fields import (
    MAX_TOOLS,
    Ignored,
    Name,
    Schema,
    Strict,
    Tokens,
    Unsupported,
    schema_constraint,
)
from engine.service.http.openai.fields import Effort, Sampled, TopLogprobs
from engine.service.http.openai.responses_input import InputItem, to_messages
from engine.service.http.openai.responses_tools import Declared, ResponseTool, declared_tools
from engine.service.http.openai.tools import (
    Chosen,
    Word,
    allowed_tools,
    named_tool,
    plain_choice,
)
from engine.service.http.problems import BadField
from engine.service.http.settings import Defaults
from engine.service.http.thinking import thinking_of
from engine.types import ChatMessage, ChatRequest, Constraint, ConstraintKind, Tool


class NamedChoice(Strict):
    type: Literal["function", "custom"]
    name: Name


class AllowedChoice(Strict):
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedChoice], Field(min_length=1)]


ToolChoiceField = Word | Annotated[NamedChoice | AllowedChoice, Field(discriminator="type")]


class TextFormat(Strict):
    type: Literal["text"]


class JsonObjectFormat(Strict):
    type: Literal["json_object"]


class JsonSchemaFormat(Strict):
    type: Literal["json_schema"]
    name: str
    schema_: Annotated[Schema, Field(alias="schema")]
    description: Ignored = None
    strict: Ignored = None


class TextOptions(Strict):
    """verbosity: accepted, for coding agents send it always."""

    format: (
        Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")] | None
    ) = None
    verbosity: Ignored = None


class ReasoningOptions(Strict):
    effort: Effort | None = None
    summary: Ignored = None
    generate_summary: Ignored = None


class StreamOptions(Strict):
    include_obfuscation: Ignored = None


class ResponseBody(Sampled):
    """Nothing is kept between requests: each brings its whole input."""

    input: str | Annotated[list[InputItem], Field(min_length=1)]
    instructions: str | None = None
    max_output_tokens: Tokens | None = None
    tools: Annotated[list[ResponseTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoiceField | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: ReasoningOptions | None = None
    top_logprobs: TopLogprobs | None = None
    include: list[Literal["reasoning.encrypted_content", "message.output_text.logprobs"]] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    truncation: Literal["disabled"] | None = None
    service_tier: Literal["auto", "default"] | None = None
    metadata: dict[str, str] | None = None
    client_metadata: Ignored = None
    prompt_cache_key: Ignored = None
    prompt_cache_options: Ignored = None
    prompt_cache_retention: Ignored = None
    safety_identifier: Ignored = None
    store: Unsupported = None
    background: Unsupported = None
    conversation: Unsupported = None
    max_tool_calls: Unsupported = None
    moderation: Unsupported = None
    previous_response_id: Unsupported = None
    prompt: Unsupported = None

    @property
    def with_logprobs(self) -> bool:
        return "message.output_text.logprobs" in (self.include or ()) or self.top_logprobs is not None

    def declared(self) -> list[Declared]:
        """The tools, those of namespaces in their place."""
        return declared_tools(self.tools or ())

    def request(self, defaults: Defaults) -> ChatRequest:
        """Raises BadField for fields that do not go together."""
        tools = tuple(tool.shown for tool in self.declared())
        if len(tools) > MAX_TOOLS:
            raise BadField("tools", f"At most {MAX_TOOLS} tools, those of namespaces counted.")
        chosen = self._chosen(tools)
        effort = self.reasoning.effort if self.reasoning is not None else None
        thinking = thinking_of(defaults, effort=effort)
        messages = [ChatMessage("system", self.instructions)] if self.instructions else []
        if isinstance(self.input, str):
            messages.append(ChatMessage("user", self.input))
        else:
            messages += to_messages(self.input)
        return ChatRequest(
            messages=tuple(messages),
            max_tokens=self.max_output_tokens or defaults.max_tokens,
            sampling=self.params(defaults),
            tools=chosen.tools,
            tool_choice=chosen.choice,
            named_tool=chosen.named,
            parallel_tool_calls=self.parallel_tool_calls is not False,
            constraint=self._constraint(),
            thinking=thinking.on,
            thinking_optional=thinking.optional,
            thinking_budget=thinking.budget,
            top_logprobs=(self.top_logprobs or 0) if self.with_logprobs else None,
        )

    def _chosen(self, tools: tuple[Tool, ...]) -> Chosen:
        match self.tool_choice:
            case NamedChoice(name=name):
                return named_tool(name, tools)
            case AllowedChoice(mode=mode, tools=allowed):
                return allowed_tools(mode, [tool.name for tool in allowed], tools)
            case word:
                return plain_choice(word, tools)

    def _constraint(self) -> Constraint | None:
        match self.text.format if self.text is not None else None:
            case JsonObjectFormat():
                return Constraint(ConstraintKind.JSON_OBJECT)
            case JsonSchemaFormat(schema_=schema):
                return schema_constraint(schema, "text.format.schema")
            case _:
                return None

    def echoed(self) -> dict[str, object]:
        """The fields that a response repeats of its request."""
        shown = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {
            "instructions": self.instructions,
            "max_output_tokens": self.max_output_tokens,
            "metadata": self.metadata or {},
            "parallel_tool_calls": self.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": {
                "effort": self.reasoning.effort if self.reasoning is not None else None,
                "summary": None,
            },
            "store": False,
            "temperature": self.temperature,
            "text": {"format": {"type": "text"}, **shown.get("text", {})},
            "tool_choice": shown.get("tool_choice", "auto"),
            "tools": [_echoed(tool) for tool in shown.get("tools", [])],
            "top_logprobs": self.top_logprobs,
            "top_p": self.top_p,
            "truncation": "disabled",
        }


def _echoed(tool: dict[str, object]) -> dict[str, object]:
    """A tool as responses repeat it: a function with all its fields."""
    return {"strict": None, "parameters": None, **tool} if tool["type"] == "function" else tool
