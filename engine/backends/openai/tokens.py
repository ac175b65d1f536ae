"""The remote's own tokenizer, over HTTP, where it offers one (vLLM and SGLang do)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from engine.backends.openai.chat_body import messages, thinking_fields, tools
from engine.backends.openai.connection import Connection
from engine.backends.openai.control_text import harmless_pieces
from engine.backends.openai.dialects import Dialect
from engine.backends.openai.failures import malformed
from engine.backends.openai.sampling import cannot
from engine.types import ChatRequest


class RemoteTokenizer:
    """Of one remote; each method names the remote's model.

    Raises HearthError; RequestError where the remote has none.
    """

    def __init__(self, connection: Connection, dialect: Dialect, remote: str) -> None:
        self._connection = connection
        self._dialect = dialect
        self._remote = remote

    async def encode(self, text: str, model: str, *, special: bool, begin: bool = False) -> list[int]:
        """Token ids.

        special: whether the spellings of control tokens mean them.
        begin: with what the vocabulary puts before a text.
        """
        if not text:
            return []
        pieces = [text] if special else harmless_pieces(text)
        asked = (self._encode(piece, model, begin and not index) for index, piece in enumerate(pieces))
        return [token for ids in await asyncio.gather(*asked) for token in ids]

    async def decode(self, ids: Sequence[int], model: str) -> str:
        """The text of tokens."""
        self._require()
        if not ids:
            return ""
        body = {"model": model, "tokens": list(ids)}
        answer = await self._connection.ask("POST", "/detokenize", body, model=model)
        text = answer.get(self._dialect.detokenized) if isinstance(answer, dict) else None
        if not isinstance(text, str):
            raise malformed(self._remote, "the answer of /detokenize has no text")
        return text

    async def count(self, request: ChatRequest, model: str) -> int:
        """The length of a chat's prompt."""
        if not self._dialect.counts_chats:
            raise cannot(self._remote, "counting the tokens of a chat")
        body: dict[str, object] = {
            "model": model,
            "messages": messages(request, self._dialect, self._remote),
            "add_generation_prompt": True,
        }
        if request.tools:
            body["tools"] = tools(request)
        switch = thinking_fields(request, self._dialect, self._remote)
        if "chat_template_kwargs" in switch:  # a budget is none of the prompt's
            body["chat_template_kwargs"] = switch["chat_template_kwargs"]
        return len(self._ids(await self._connection.ask("POST", "/tokenize", body, model=model)))

    async def _encode(self, text: str, model: str, begin: bool) -> list[int]:
        self._require()
        body = {"model": model, "prompt": text, "add_special_tokens": begin}
        return self._ids(await self._connection.ask("POST", "/tokenize", body, model=model))

    def _ids(self, answer: Any) -> list[int]:
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(tokens, list) or not all(type(one) is int and 0 <= one < 1 << 31 for one in tokens):
            raise malformed(self._remote, "the answer of /tokenize has no token ids")
        return tokens

    def _require(self) -> None:
        if not self._dialect.tokenizer:
            raise cannot(self._remote, "giving out token ids")
