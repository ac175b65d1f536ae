"""Bodies of messages and of count_tokens, and the engine's request that they mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from engine.service.http.anthropic.blocks import (
    Message,
    TextContent,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    system_text,
    to_messages,
)
from engine.service.http.anthropic.context import ContextManagement
from engine.service.http.fields import (
    MAX_TOOLS,
    Ignored,
    Name,
    Schema,
    Stops,
    Strict,
    Temperature,
    Tokens,
    TopK,
    TopP,
    Unsupported,
    sampling,
    schema_constraint,
    stops,
)
from engine.service.http.problems import BadField
from engine.service.http.settings import Defaults
from engine.service.http.thinking import ThinkingOff, ThinkingOn, ThinkingSwitch, thinking_of
from engine.types import ChatMessage, ChatRequest, Constraint, Tool, ToolChoice


class ToolField(Strict):
    """A tool of the client's own; those that Anthropic's servers run are not there."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]
    input_schema: Schema
    description: str | None = None
    type: Literal["custom"] | None = None
    cache_control: Ignored = None
    strict: Ignored = None
    eager_input_streaming: Ignored = None
    defer_loading: Unsupported = None
    input_examples: Unsupported = None


class AutoChoice(Strict):
    type: Literal["auto"]
    disable_parallel_tool_use: bool = False


class AnyChoice(Strict):
    type: Literal["any"]
    disable_parallel_tool_use: bool = False


class ToolNamedChoice(Strict):
    type: Literal["tool"]
    name: Name
    disable_parallel_tool_use: bool = False


class NoneChoice(Strict):
    type: Literal["none"]


ToolChoiceField = Annotated[
    AutoChoice | AnyChoice | ToolNamedChoice | NoneChoice, Field(discriminator="type")
]


class JsonFormat(Strict):
    type: Literal["json_schema"]
    schema_: Annotated[Schema, Field(alias="schema")]


class OutputConfig(Strict):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: JsonFormat | None = None


class CountBody(Strict):
    model: Name
    messages: Annotated[list[Message], Field(min_length=1)]
    system: TextContent | None = None
    tools: Annotated[list[ToolField], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoiceField | None = None
    thinking: ThinkingSwitch | None = None
    output_config: OutputConfig | None = None
    context_management: ContextManagement | None = None
    cache_control: Ignored = None
    thread: dict[str, object] | None = None

    def request(self, defaults: Defaults) -> ChatRequest:
        """Raises BadField for fields that do not go together."""
        if self.thread is not None:
            # The SDKs' tool runner asks for it always, and by this word knows that it must send all messages.
            raise BadField(
                "thread",
                "Conversations are not kept here; send all messages, without it.",
                error_code="thread_unsupported_request",
            )
        system = system_text(self.system)
        messages = [ChatMessage("system", system)] if system else []
        for index, message in enumerate(self.messages):
            _check_blocks(message, f"messages.{index}.content")
            messages += to_messages(message)
        if self.context_management is not None:
            messages, _ = self.context_management.apply(messages)
        if self.messages[-1].role == "assistant":
            raise BadField(
                "messages", "The last message must not be the assistant's: it is not gone on with."
            )
        choice, named = self._choice()
        effort = self.output_config.effort if self.output_config is not None else None
        # In this API a model thinks only when it is asked to.
        switch = self.thinking or ThinkingOff(type="disabled")
        thinking = thinking_of(defaults, switch=switch, effort=effort if self._thinks else None)
        return ChatRequest(
            messages=tuple(messages),
            tools=tuple(
                Tool(tool.name, tool.description or "", tool.input_schema) for tool in self.tools or ()
            ),
            tool_choice=choice,
            named_tool=named,
            parallel_tool_calls=not getattr(self.tool_choice, "disable_parallel_tool_use", False),
            constraint=self._constraint(),
            thinking=thinking.on,
            thinking_optional=thinking.optional,
            thinking_budget=thinking.budget,
        )

    def unedited(self, defaults: Defaults) -> ChatRequest:
        """The request before `context_management` took anything out of it."""
        return self.model_copy(update={"context_management": None}).request(defaults)

    @property
    def _thinks(self) -> bool:
        return self.thinking is not None and not isinstance(self.thinking, ThinkingOff)

    def _constraint(self) -> Constraint | None:
        wanted = self.output_config.format if self.output_config is not None else None
        return (
            schema_constraint(wanted.schema_, "output_config.format.schema") if wanted is not None else None
        )

    def _choice(self) -> tuple[ToolChoice, str]:
        names = [tool.name for tool in self.tools or ()]
        if len(set(names)) < len(names):
            raise BadField("tools", "Two tools have the same name.")
        match self.tool_choice:
            case ToolNamedChoice(name=name):
                if name not in names:
                    raise BadField("tool_choice.name", f"No tool has the name {name!r}.")
                return ToolChoice.NAMED, name
            case AnyChoice():
                if not names:
                    raise BadField("tool_choice", "There are no tools to call.")
                return ToolChoice.REQUIRED, ""
            case NoneChoice():
                return ToolChoice.NONE, ""
            case _:
                return ToolChoice.AUTO, ""


class MessagesBody(CountBody):
    max_tokens: Tokens
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    stop_sequences: Stops | None = None
    stream: bool | None = None
    metadata: Ignored = None
    service_tier: Literal["auto", "standard_only"] | None = None

    def request(self, defaults: Defaults) -> ChatRequest:
        """Raises BadField for fields that do not go together."""
        budget = self.thinking.budget_tokens if isinstance(self.thinking, ThinkingOn) else None
        if budget is not None and budget >= self.max_tokens:
            raise BadField(
                "thinking.budget_tokens", "It must be less than max_tokens, or no room is left to reply."
            )
        asked = super().request(defaults)
        params = sampling(defaults, temperature=self.temperature, top_p=self.top_p, top_k=self.top_k)
        return replace(asked, max_tokens=self.max_tokens, sampling=params, stop=stops(self.stop_sequences))


def _check_blocks(message: Message, field: str) -> None:
    """Each role has blocks of its own."""
    if isinstance(message.content, str):
        return
    for index, block in enumerate(message.content):
        wrong = isinstance(block, ToolResultBlock) and message.role != "user"
        wrong |= isinstance(block, ToolUseBlock | ThinkingBlock) and message.role != "assistant"
        if wrong:
            raise BadField(
                f"{field}.{index}", f"A {block.type} block cannot be in a message of {message.role}."
            )
