"""Chat prompts from the template in the model file: messages, tools, calls and their results, reasoning.

Only the template's own text may hold control tokens. Before rendering, every control spelling in a
message, and every edge that could become one beside other text, is broken by an unguessable mark; after
rendering the template's control tokens are found, then the marks are taken out and the rest is encoded as
plain text.
So templates see the real text, may trim or test it, and words meet their neighbours as in training.

A message whose tokens are known, because this model wrote it, can stand in the prompt as these very tokens:
the template renders a placeholder for it.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from jinja2 import TemplateError

from engine.errors import RequestError
from engine.prompts.sandbox import Sandbox
from engine.tokenizer import GgufMetadata, Tokenizer
from engine.types import ChatMessage, Tool, ToolCall

_ROLES = frozenset({"system", "user", "assistant", "tool"})
# Keys that templates look up, in messages and in JSON schemas: their edges stay as they are.
_KNOWN_KEYS = frozenset(
    {
        "role", "content", "reasoning_content", "tool_calls", "tool_call_id", "id", "type", "function",
        "name", "arguments", "description", "parameters", "properties", "required", "items", "enum",
        "default", "additionalProperties", "anyOf", "oneOf", "allOf", "$ref", "$defs",
    }
)  # fmt: skip
# How a prompt ends that opens the reasoning, or closes it at once; and what templates put before an answer.
_THOUGHT = re.compile(r"<think>\s*(?:</think>\s*)?\Z")
# Values of the key "type" that templates compare.
_KNOWN_TYPES = frozenset(
    {"function", "object", "array", "string", "integer", "number", "boolean", "null"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A chat as token ids, ready for the assistant's next message.

    opening: the ids at its end that belong to the message already: the tags that open, or skip, reasoning.
    reasoning: whether they leave it open.
    """

    ids: tuple[int, ...]
    opening: tuple[int, ...] = ()
    reasoning: bool = False


class ChatTemplate:
    """A model's chat template. Rendering is safe from any thread.

    Attributes:
        source: the template's text.
    """

    def __init__(
        self, source: str, tokenizer: Tokenizer, *, now: Callable[[], datetime] = datetime.now
    ) -> None:
        """now: the clock that templates read through strftime_now."""
        self.source = source
        self._tokenizer = tokenizer
        self._now = now
        # Longest first, so that a break falls inside the longest spelling that stands at a place.
        spellings = sorted({text for text in tokenizer.control_texts if text}, key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, spellings))) if spellings else None
        self._beginnings = {text[:length] for text in spellings for length in range(1, len(text))}
        self._endings = {text[start:] for text in spellings for start in range(1, len(text))}
        self._insides = "\n".join(text[1:-1] for text in spellings)
        self._longest = max(map(len, spellings), default=0)

    @classmethod
    def from_gguf(cls, metadata: GgufMetadata, tokenizer: Tokenizer) -> ChatTemplate:
        """Raises RequestError when the file has no chat template."""
        source = metadata.get("tokenizer.chat_template")
        if not isinstance(source, str) or not source:
            raise RequestError(
                "This model's file has no chat template.",
                meaning="It cannot hold a chat; completion still works if the model can fill in the middle.",
                action="Choose an instruct model for chat.",
            )
        return cls(source, tokenizer)

    def render(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Tool] = (),
        *,
        add_generation_prompt: bool = True,
        thinking: bool | None = None,
    ) -> str:
        """The prompt's text, for people; `encode` gives the ids.

        thinking: the template's switch for reasoning; None leaves it unset.
        Raises RequestError when the template refuses, fails or goes over its limits.
        """
        values = self._values(tools, add_generation_prompt, thinking, mark="")
        return self._render(self._messages(messages, mark=""), values)

    def encode(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Tool] = (),
        *,
        add_generation_prompt: bool = True,
        thinking: bool | None = None,
        written: Mapping[int, Sequence[int]] | None = None,
    ) -> ChatPrompt:
        """As `render`, as token ids: control tokens come from the template alone.

        written: for some assistant messages, by their place, the ids that the model wrote, with the opening
            and without the end token. They are left out where the template has no one place for them.
        """
        # U+FDD0 and U+FDD1 are noncharacters: no template and no tokenizer gives them a meaning.
        secret = secrets.token_hex(8)
        mark = f"\ufdd0{secret}\ufdd1"
        values = self._values(tools, add_generation_prompt, thinking, mark)
        rendered = self._messages(messages, mark)
        if written:
            places = {number: f"\ufdd0{secret}:{number}\ufdd1" for number in sorted(written)}
            text = self._render_written(rendered, values, places)
            if text is not None:
                pieces = re.split(f"\ufdd0{secret}:([0-9]+)\ufdd1", text)
                ids = self._encode(pieces[0], mark)
                for number, following in zip(pieces[1::2], pieces[2::2], strict=True):
                    ids += [*written[int(number)], *self._encode(following, mark)]
                return self._prompt(ids, text)
        text = self._render(rendered, values)
        return self._prompt(self._encode(text, mark), text)

    def _prompt(self, ids: list[int], text: str) -> ChatPrompt:
        tokenizer = self._tokenizer
        if tokenizer.add_bos and tokenizer.bos is not None and ids[:1] != [tokenizer.bos]:
            ids.insert(0, tokenizer.bos)
        thought = _THOUGHT.search(text)
        if thought is None:
            return ChatPrompt(tuple(ids))
        reasoning = "</think>" not in thought.group()
        opening = tokenizer.encode(thought.group(), special=True)
        # Without tokens of their own, the tags may have grown together with what stands before.
        known = ids[-len(opening) :] == opening
        return ChatPrompt(tuple(ids), tuple(opening) if known else (), reasoning)

    def _encode(self, text: str, mark: str) -> list[int]:
        tokenizer = self._tokenizer
        ids: list[int] = []
        plain = ""
        for piece in [*tokenizer.partition(text, special=True), None]:
            if isinstance(piece, str):
                plain += piece
                continue
            if plain:
                ids += tokenizer.encode(tokenizer.text_prefix + plain.replace(mark, ""))
            plain = ""
            if piece is not None:
                ids.append(piece)
        return ids

    def _render_written(
        self, messages: Sequence[object], values: Mapping[str, object], places: Mapping[int, str]
    ) -> str | None:
        """The text with a placeholder for each written message; None when the template cannot have them."""
        stand_ins = [
            {"role": "assistant", "content": places[number]} if number in places else message
            for number, message in enumerate(messages)
        ]
        try:
            text = self._render(stand_ins, values)
        except RequestError:
            return None
        for place in places.values():
            if text.count(place) != 1:
                return None
            # The message brings its own reasoning; templates put an empty one before an answer without.
            before, after = text.split(place)
            text = _THOUGHT.sub("", before) + place + after
        return text

    def _values(
        self, tools: Sequence[Tool], add_generation_prompt: bool, thinking: bool | None, mark: str
    ) -> dict[str, object]:
        bos = self._tokenizer.bos
        eos = self._tokenizer.eos
        values: dict[str, object] = {
            "tools": self._break_all([_function(tool) for tool in tools], mark) if tools else None,
            "add_generation_prompt": add_generation_prompt,
            "bos_token": "" if bos is None else self._tokenizer.token_text(bos),
            "eos_token": "" if eos is None else self._tokenizer.token_text(eos),
        }
        return values if thinking is None else {**values, "enable_thinking": thinking}

    def _messages(self, messages: Sequence[ChatMessage], mark: str) -> list[object]:
        names = {call.id: call.name for message in messages for call in message.tool_calls}
        for message in messages:
            if message.role not in _ROLES:
                raise RequestError(
                    f"A chat message has the role {message.role!r}.",
                    action=f"Use one of {', '.join(sorted(_ROLES))}.",
                )
        return [
            # Templates compare roles and may put them into control tokens; ours are from a fixed set.
            {"role": message.role, **self._break_fields(_fields(message, names), mark)}
            for message in messages
        ]

    def _render(self, messages: Sequence[object], values: Mapping[str, object]) -> str:
        try:
            return Sandbox(self._now).render(self.source, {**values, "messages": messages})
        except TemplateError as error:
            raise _template_error(f"{error.message or type(error).__name__}") from error
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, SyntaxError) as error:
            raise _template_error(f"{type(error).__name__}: {error}") from error
        except (RecursionError, MemoryError) as error:
            raise _template_error("it nests too deeply or needs too much memory") from error

    def _break(self, text: str, mark: str) -> str:
        if not mark or self._control is None:
            return text
        broken = self._control.sub(lambda match: match.group()[:1] + mark + match.group()[1:], text)
        # Templates trim: what stands inside the blanks may meet their text as well.
        for end in (len(broken), len(broken.rstrip())):
            for length in range(min(self._longest, end), 0, -1):
                if broken[end - length : end] in self._beginnings:
                    broken = broken[: end - length + 1] + mark + broken[end - length + 1 :]
                    break
        start = len(broken) - len(broken.lstrip())
        if self._continues(broken[start:]):
            broken = broken[:start] + mark + broken[start:]
        return broken

    def _continues(self, text: str) -> bool:
        """Whether text could go on with a control spelling that the template began, as `<` before a key."""
        core = text.rstrip()
        if core and core in self._insides:
            return True
        return any(text[:length] in self._endings for length in range(1, self._longest))

    def _break_all(self, value: object, mark: str) -> object:
        if isinstance(value, str):
            return self._break(value, mark)
        if isinstance(value, Mapping):
            return self._break_fields(value, mark)
        if isinstance(value, (list, tuple)):
            return [self._break_all(item, mark) for item in value]
        return value

    def _break_fields(self, fields: Mapping[str, object], mark: str) -> dict[str, object]:
        return {
            key if key in _KNOWN_KEYS else self._break(str(key), mark): item
            if key == "type" and isinstance(item, str) and item in _KNOWN_TYPES
            else self._break_all(item, mark)
            for key, item in fields.items()
        }


def _fields(message: ChatMessage, names: Mapping[str, str]) -> dict[str, object]:
    """A message but for its role, as templates expect it, with no field that it does not need: some test.

    names: of the tools called, by call.
    """
    fields: dict[str, object] = {"content": message.content}
    if message.reasoning:
        fields["reasoning_content"] = message.reasoning
    if message.tool_calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call)},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool" and message.tool_call_id:
        fields["tool_call_id"] = message.tool_call_id
        fields["name"] = names.get(message.tool_call_id, "")
    return fields


def _function(tool: Tool) -> dict[str, object]:
    function: dict[str, object] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": {**function, "parameters": tool.parameters or _NO_PARAMETERS}}


_NO_PARAMETERS = {"type": "object", "properties": {}}


def _arguments(call: ToolCall) -> dict[str, object]:
    """Arguments as templates expect them: an object, whatever the client sent back."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    return arguments if isinstance(arguments, dict) else {"arguments": call.arguments}


def _template_error(reason: str) -> RequestError:
    return RequestError(
        f"The model's chat template cannot render this chat: {reason}.",
        meaning="The request was not sent to the model.",
        action="Change the messages as it says, or choose another model.",
    )
