"""Chat prompts from the template in the model file.

Only the template's own text may hold control tokens. Before rendering, every control spelling in a
message (and a message end that could become one) is broken by an unguessable mark; after rendering the
template's control tokens are found, then the marks are taken out and the rest is encoded as plain text.
So templates see the real text, may trim or test it, and words meet their neighbours as in training.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from jinja2 import TemplateError

from engine.errors import RequestError
from engine.prompts.sandbox import Sandbox
from engine.tokenizer import GgufMetadata, Tokenizer
from engine.types import ChatMessage

_ROLES = frozenset({"system", "user", "assistant", "tool"})


class ChatTemplate:
    """A model's chat template. Rendering is safe from any thread."""

    def __init__(
        self, source: str, tokenizer: Tokenizer, *, now: Callable[[], datetime] = datetime.now
    ) -> None:
        """now: the clock that templates read through strftime_now."""
        self._source = source
        self._tokenizer = tokenizer
        self._now = now
        # Longest first, so that a break falls inside the longest spelling that stands at a place.
        spellings = sorted({text for text in tokenizer.control_texts if text}, key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, spellings))) if spellings else None
        self._beginnings = {text[:length] for text in spellings for length in range(1, len(text))}

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
        tools: Sequence[Mapping[str, object]] | None = None,
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        """The prompt's text, for people; `build_chat` gives the ids.

        tools: functions in JSON schema form, as the template expects them.
        Raises RequestError when the template refuses, fails or goes over its limits.
        """
        return self._render(messages, tools, add_generation_prompt, mark="")

    def encode(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Mapping[str, object]] | None = None,
        *,
        add_generation_prompt: bool = True,
    ) -> list[int]:
        """As `render`, as token ids: control tokens come from the template alone."""
        # U+FDD0 and U+FDD1 are noncharacters: no template and no tokenizer gives them a meaning.
        mark = f"\ufdd0{secrets.token_hex(8)}\ufdd1"
        text = self._render(messages, tools, add_generation_prompt, mark)
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
        if tokenizer.add_bos and tokenizer.bos is not None and ids[:1] != [tokenizer.bos]:
            ids.insert(0, tokenizer.bos)
        return ids

    def _render(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Mapping[str, object]] | None,
        add_generation_prompt: bool,
        mark: str,
    ) -> str:
        for message in messages:
            if message.role not in _ROLES:
                raise RequestError(
                    f"A chat message has the role {message.role!r}.",
                    action=f"Use one of {', '.join(sorted(_ROLES))}.",
                )
        bos = self._tokenizer.bos
        eos = self._tokenizer.eos
        values: dict[str, object] = {
            "messages": [
                {"role": message.role, "content": self._break(message.content, mark)} for message in messages
            ],
            "tools": self._break_all(list(tools), mark) if tools else None,
            "add_generation_prompt": add_generation_prompt,
            "bos_token": "" if bos is None else self._tokenizer.token_text(bos),
            "eos_token": "" if eos is None else self._tokenizer.token_text(eos),
        }
        try:
            return Sandbox(self._now).render(self._source, values)
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
        longest = max(map(len, self._beginnings), default=0)
        for length in range(min(longest, len(broken)), 0, -1):
            if broken[len(broken) - length :] in self._beginnings:
                return broken[: len(broken) - length + 1] + mark + broken[len(broken) - length + 1 :]
        return broken

    def _break_all(self, value: object, mark: str) -> object:
        if isinstance(value, str):
            return self._break(value, mark)
        if isinstance(value, Mapping):
            return {self._break(str(key), mark): self._break_all(item, mark) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._break_all(item, mark) for item in value]
        return value


def build_chat(
    messages: Sequence[ChatMessage],
    tools: Sequence[Mapping[str, object]] | None = None,
    *,
    template: ChatTemplate,
    add_generation_prompt: bool = True,
) -> list[int]:
    """Token ids of a chat, ready for the assistant's next message. Raises RequestError, see ChatTemplate."""
    return template.encode(messages, tools, add_generation_prompt=add_generation_prompt)


def _template_error(reason: str) -> RequestError:
    return RequestError(
        f"The model's chat template cannot render this chat: {reason}.",
        meaning="The request was not sent to the model.",
        action="Change the messages as it says, or choose another model.",
    )
