"""One remote and its models: what `Served` offers, by a server elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from engine.backends.openai.chat_body import chat_body, stream_fields
from engine.backends.openai.chat_stream import chat_deltas
from engine.backends.openai.circuit import Health
from engine.backends.openai.connection import Connection, Pause
from engine.backends.openai.constraints import constraint_fields
from engine.backends.openai.control_text import spells_control
from engine.backends.openai.deadline import within
from engine.backends.openai.dialects import DIALECTS, Server
from engine.backends.openai.failures import MalformedAnswer, malformed
from engine.backends.openai.fim import Vocabulary, clip, parts_of, prompt_of, read_vocabulary
from engine.backends.openai.fim_names import AUTO, SUFFIX, family_name
from engine.backends.openai.sampling import cannot, sampling_fields
from engine.backends.openai.settings import RemoteSettings
from engine.backends.openai.text_stream import text_deltas
from engine.backends.openai.tokens import RemoteTokenizer
from engine.backends.openai.usage import Meter
from engine.errors import RequestError
from engine.prompts.families import FAMILIES, FimFamily
from engine.types import (
    ChatDelta,
    ChatRequest,
    CompletionRequest,
    EngineStatus,
    FinishReason,
    InfillRequest,
    TextDelta,
)

Delta = TypeVar("Delta", TextDelta, ChatDelta)

_COMPLETIONS = "/v1/completions"
_CHATS = "/v1/chat/completions"
_STATES = {Health.UP: "ready", Health.UNKNOWN: "ready", Health.REFUSED: "failed", Health.DOWN: "failed"}


@dataclass(slots=True)
class _Model:
    """A model of the remote.

    family: its fill-in-the-middle format; None without one, or where the server itself fills holes (suffix).
    vocabulary: the format's tokens, and `recoveries` of the connection when they were asked for.
    """

    name: str
    family: FimFamily | None
    suffix: bool
    vocabulary: Vocabulary | None = None
    read_at: int = 0


class Remote:
    """The models of one `[[remote]]`, by their names on this machine. Used on one event loop.

    Streams and errors are as in `engine.service.served.Served`; `failures.Unreachable` is an
    EngineUnavailable for which nothing of an answer had come.
    """

    def __init__(self, settings: RemoteSettings, *, pause: Pause = asyncio.sleep) -> None:
        self.settings = settings
        self.connection = Connection(settings, pause=pause)
        self._dialect = DIALECTS[settings.server]
        self._tokenizer = RemoteTokenizer(self.connection, self._dialect, settings.name)
        self._models = {
            local: _model(one.name, one.fim, settings.server) for local, one in settings.models.items()
        }

    @property
    def name(self) -> str:
        return self.settings.name

    def infill(self, request: InfillRequest, model: str) -> AsyncGenerator[TextDelta, None]:
        """Stream the text that belongs between prefix and suffix."""
        meter = Meter()
        return within(
            self._infill(request, model, meter),
            request.timeout_s,
            lambda: TextDelta("", 0, finish=FinishReason.LENGTH, timing=meter.timing()),
        )

    async def _infill(
        self, request: InfillRequest, model: str, meter: Meter
    ) -> AsyncGenerator[TextDelta, None]:
        one = self._models[model]
        body = {
            **self._text_fields(request, one),
            **await self._infill_prompt(request, one),
        }
        if self._dialect.token_logprobs:
            body["logprobs"] = 1
        events = self.connection.events(_COMPLETIONS, body, model=one.name)
        async with aclosing(self._checked(text_deltas(events, request.stop, meter, listed=False))) as deltas:
            async for delta in deltas:
                yield delta

    def complete(self, request: CompletionRequest, model: str) -> AsyncGenerator[TextDelta, None]:
        """Continue a text as it is."""
        meter = Meter()
        return within(
            self._complete(request, model, meter),
            request.timeout_s,
            lambda: TextDelta("", 0, finish=FinishReason.LENGTH, timing=meter.timing()),
        )

    async def _complete(
        self, request: CompletionRequest, model: str, meter: Meter
    ) -> AsyncGenerator[TextDelta, None]:
        one = self._models[model]
        body = {
            **self._text_fields(request, one),
            "prompt": await self._prompt(request.prompt, one),
        }
        if request.top_logprobs is not None:
            body["logprobs"] = request.top_logprobs
        if request.constraint is not None:
            body |= constraint_fields(request.constraint, self._dialect, self.name, chat=False)
        events = self.connection.events(_COMPLETIONS, body, model=one.name)
        listed = request.top_logprobs is not None
        async with aclosing(self._checked(text_deltas(events, request.stop, meter, listed=listed))) as deltas:
            async for delta in deltas:
                yield delta

    def chat(self, request: ChatRequest, model: str) -> AsyncGenerator[ChatDelta, None]:
        """Stream the assistant's next message."""
        meter = Meter()
        return within(
            self._chat(request, model, meter),
            request.timeout_s,
            lambda: ChatDelta(finish=FinishReason.LENGTH, timing=meter.timing()),
        )

    async def _chat(self, request: ChatRequest, model: str, meter: Meter) -> AsyncGenerator[ChatDelta, None]:
        one = self._models[model]
        body = chat_body(request, one.name, self._dialect, self.name)
        events = self.connection.events(_CHATS, body, model=one.name)
        async with aclosing(self._checked(chat_deltas(events, request, meter))) as deltas:
            async for delta in deltas:
                yield delta

    def check_infill(self, model: str) -> None:
        """Raises RequestError when the model fills no holes."""
        one = self._models[model]
        if one.family is None and not one.suffix:
            raise RequestError(
                f"The model {one.name} of the remote {self.name} has no known fill-in-the-middle format.",
                meaning="It cannot complete code in the middle of a file.",
                action="Set `fim` of the model in service.toml to its family; docs/service.md lists them.",
            )

    async def tokenize(self, text: str, model: str, *, special: bool) -> list[int]:
        """Token ids; special: whether the spelling of a control token means it."""
        return await self._tokenizer.encode(text, self._models[model].name, special=special)

    async def detokenize(self, ids: Sequence[int], model: str) -> str:
        """The text of tokens."""
        return await self._tokenizer.decode(ids, self._models[model].name)

    async def count_tokens(self, request: ChatRequest, model: str) -> int:
        """The length of a chat's prompt."""
        return await self._tokenizer.count(request, self._models[model].name)

    async def embed(self, texts: Sequence[str], model: str) -> tuple[list[list[float]], int]:
        """A vector for each text, and the tokens of all."""
        one = self._models[model]
        body = {"model": one.name, "input": list(texts), "encoding_format": "float"}
        answer = await self.connection.ask("POST", "/v1/embeddings", body, model=one.name)
        try:
            return _vectors(answer, len(texts))
        except MalformedAnswer as error:
            raise malformed(self.name, str(error)) from None

    def status(self, model: str) -> EngineStatus:
        """What is known of the model; asks nothing."""
        one = self._models[model]
        windows = self.connection.listed or {}
        return EngineStatus(
            _STATES[self.connection.health],
            model,
            kernels=f"remote {self.name}",
            context_tokens=windows.get(one.name, 0),
            supports_infill=one.family is not None or one.suffix,
            message=self.problem(model),
        )

    def problem(self, model: str) -> str:
        """Why the model cannot be used now, or ""."""
        if self.connection.health in (Health.DOWN, Health.REFUSED):
            return " ".join(dict.fromkeys(self.connection.reasons.values()))
        listed, named = self.connection.listed, self._models[model].name
        if listed and named not in listed:
            return f"The remote {self.name} does not list {named}; it lists {', '.join(list(listed)[:20])}."
        return ""

    async def close(self) -> None:
        """End all that runs."""
        await self.connection.close()

    def _text_fields(self, request: InfillRequest | CompletionRequest, one: _Model) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "model": one.name,
            "max_tokens": request.max_tokens,
            **sampling_fields(request.sampling, self._dialect, self.name),
            **stream_fields(self._dialect),
        }
        return {**fields, "stop": list(request.stop)} if request.stop else fields

    async def _infill_prompt(self, request: InfillRequest, one: _Model) -> dict[str, Any]:
        tokens = self.settings.prompt_tokens if request.prompt_budget is None else request.prompt_budget
        if one.suffix:
            # As with formats that have no place for other files, those are left out.
            prefix, suffix = clip(request, tokens)
            return {"prompt": prefix, "suffix": suffix}
        if one.family is None:
            self.check_infill(next(local for local, model in self._models.items() if model is one))
        assert one.family is not None  # noqa: S101 - check_infill has raised
        if not self._dialect.tokenizer:
            raise cannot(
                self.name,
                "telling its tokens, without which fill-in-the-middle is not safe",
                action='Set `fim` to "suffix" if the server fills holes itself.',
            )
        if one.vocabulary is None or one.read_at != self.connection.recoveries:
            read_at = self.connection.recoveries
            one.vocabulary = await read_vocabulary(self._tokenizer, one.family, one.name, self.name)
            one.read_at = read_at
        parts = parts_of(request, one.family, tokens)
        prompt = await prompt_of(parts, one.vocabulary, self._tokenizer, one.name)
        return {"prompt": prompt, "stop_token_ids": one.vocabulary.stops}

    async def _prompt(self, prompt: str | tuple[int, ...], one: _Model) -> str | list[int]:
        if not isinstance(prompt, str):
            return list(prompt)
        if self._dialect.literal_text or not spells_control(prompt):
            return prompt
        return await self._tokenizer.encode(prompt, one.name, special=False, begin=True)

    async def _checked(self, deltas: AsyncGenerator[Delta, None]) -> AsyncGenerator[Delta, None]:
        try:
            async with aclosing(deltas):
                async for delta in deltas:
                    yield delta
        except MalformedAnswer as error:
            raise malformed(self.name, str(error)) from None


def _model(name: str, fim: str, server: Server) -> _Model:
    if fim == AUTO:
        fim = SUFFIX if server is Server.HEARTH else family_name(name)
    family = next((family for family in FAMILIES if family.name == fim), None)
    return _Model(name, family, suffix=fim == SUFFIX)


def _vectors(answer: Any, count: int) -> tuple[list[list[float]], int]:
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or len(rows) != count:
        raise MalformedAnswer("its embeddings are not one for each text")
    vectors = []
    for row in rows:
        vector = row.get("embedding") if isinstance(row, dict) else None
        if not isinstance(vector, list) or not all(type(one) in (int, float) for one in vector):
            raise MalformedAnswer("its embeddings are not lists of numbers")
        vectors.append(vector)
    if len({len(vector) for vector in vectors}) != 1:
        raise MalformedAnswer("its embeddings are not of one length")
    usage = answer.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return vectors, tokens if isinstance(tokens, int) else 0
