"""What the model itself wrote when it called a tool, so that a client's replay of the call continues warm KV.

A client sends calls back as values, and no template spells them with the very tokens that were generated. One
token that differs ends the common prefix, and everything after it would be computed again.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from engine.types import ChatMessage, ToolCall

MAX_MESSAGES = 512
MAX_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True)
class _Written:
    content: str
    calls: tuple[ToolCall, ...]
    tokens: tuple[int, ...]


class CallMemory:
    """Assistant messages by the id of their first call; the least recently used are forgotten first.

    Every method is safe from any thread.
    """

    def __init__(self, max_messages: int = MAX_MESSAGES, max_tokens: int = MAX_TOKENS) -> None:
        self._max_messages = max_messages
        self._max_tokens = max_tokens
        self._messages: OrderedDict[str, _Written] = OrderedDict()
        self._tokens = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._messages)

    def remember(self, content: str, calls: Sequence[ToolCall], tokens: Sequence[int]) -> None:
        """Keep the tokens of a message with these calls: all after its header, without the end token."""
        with self._lock:
            self._forget(calls[0].id)
            self._messages[calls[0].id] = _Written(content, tuple(calls), tuple(tokens))
            self._tokens += len(tokens)
            while len(self._messages) > self._max_messages or self._tokens > self._max_tokens:
                self._forget(next(iter(self._messages)))

    def tokens_of(self, message: ChatMessage) -> tuple[int, ...] | None:
        """The tokens of a replayed message; None when it is unknown or says something else."""
        if not message.tool_calls:
            return None
        with self._lock:
            written = self._messages.get(message.tool_calls[0].id)
            if written is None or not _says(message, written):
                return None
            self._messages.move_to_end(message.tool_calls[0].id)
            return written.tokens

    def _forget(self, call: str) -> None:
        forgotten = self._messages.pop(call, None)
        if forgotten is not None:
            self._tokens -= len(forgotten.tokens)


def _says(message: ChatMessage, written: _Written) -> bool:
    if message.content.strip() != written.content.strip() or len(message.tool_calls) != len(written.calls):
        return False
    return all(
        (replayed.id, replayed.name) == (call.id, call.name)
        and _same_json(replayed.arguments, call.arguments)
        for replayed, call in zip(message.tool_calls, written.calls, strict=True)
    )


def _same_json(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        # Written anew with sorted keys, for Python takes True for 1.
        return _canonical(one) == _canonical(other)
    except (ValueError, RecursionError):
        return False


def _canonical(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)
