"""llama.cpp's server: /infill, as its editor plugins ask it, and the small routes around it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter
from starlette.responses import JSONResponse

from engine.errors import EngineUnavailable
from engine.service.http.answers import EVENT_STREAM, Stream, event
from engine.service.http.choices import whole
from engine.service.http.endpoint import Answer, Asked, Endpoint
from engine.service.http.fields import (
    Ignored,
    MinP,
    Penalty,
    RepetitionPenalty,
    Seed,
    Stops,
    Strict,
    Temperature,
    TokenId,
    TopK,
    TopP,
    Unsupported,
    sampling,
    stops,
)
from engine.service.http.problems import Api, Problem, error_body
from engine.service.http.service import Service
from engine.service.http.settings import Defaults
from engine.types import ContextFile, FinishReason, InfillRequest, TextDelta

MAX_EXTRA = 256


class ExtraFile(Strict):
    filename: str = ""
    text: str


class InfillBody(Strict):
    """prompt: text between prefix and cursor. n_predict: -1 is up to the default, 0 only warms the cache."""

    input_prefix: str
    input_suffix: str
    input_extra: Annotated[list[ExtraFile], Field(max_length=MAX_EXTRA)] | None = None
    prompt: str = ""
    n_predict: Annotated[int, Field(ge=-1, le=(1 << 31) - 1)] = -1
    temperature: Temperature | None = None
    top_k: TopK | None = None
    top_p: TopP | None = None
    min_p: MinP | None = None
    repeat_penalty: RepetitionPenalty | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    seed: Seed | None = None
    stop: Stops | None = None
    stream: bool = False
    response_fields: Annotated[list[str], Field(max_length=64)] | None = None
    cache_prompt: Ignored = None
    id_slot: Ignored = None
    n_indent: Ignored = None
    samplers: Ignored = None
    t_max_predict_ms: Ignored = None
    t_max_prompt_ms: Ignored = None
    grammar: Unsupported = None
    json_schema: Unsupported = None
    logit_bias: Unsupported = None
    n_probs: Unsupported = None

    def request(self, defaults: Defaults) -> InfillRequest:
        return InfillRequest(
            self.input_prefix + self.prompt,
            self.input_suffix,
            context=tuple(ContextFile(extra.filename, extra.text) for extra in self.input_extra or ()),
            max_tokens=defaults.max_tokens if self.n_predict < 0 else self.n_predict,
            sampling=sampling(
                defaults,
                temperature=self.temperature,
                top_k=self.top_k,
                top_p=self.top_p,
                min_p=self.min_p,
                repetition_penalty=self.repeat_penalty,
                presence_penalty=self.presence_penalty,
                frequency_penalty=self.frequency_penalty,
                seed=self.seed,
            ),
            stop=stops(self.stop),
        )


class TokenizeBody(Strict):
    content: str
    parse_special: bool = True
    add_special: Unsupported = None
    with_pieces: Unsupported = None


class DetokenizeBody(Strict):
    tokens: list[TokenId]


def endpoints(service: Service) -> list[Endpoint]:
    engine = service.engine

    async def infill(asked: Asked) -> Answer:
        body: InfillBody = asked.body
        request = body.request(service.defaults)
        if request.max_tokens == 0:
            await engine.warm(request)
            return JSONResponse(
                _selected(_last("", TextDelta("", finish=FinishReason.LENGTH)), body.response_fields)
            )
        if body.stream:
            return Stream(_events(service, request), EVENT_STREAM, _failed)
        text = ""
        last = TextDelta("")
        async with aclosing(whole(engine.infill(request))) as deltas:
            async for delta in deltas:
                text += delta.text
                last = delta
        return JSONResponse(_selected(_last(text, last), body.response_fields))

    async def health(_: Asked) -> Answer:
        status = await engine.status()
        if status.state == "loading":
            raise EngineUnavailable("Loading model")
        if status.state == "failed":
            raise EngineUnavailable("The model could not be loaded.")  # why is not for everybody
        return JSONResponse({"status": "ok"})

    async def props(_: Asked) -> Answer:
        status = await engine.status()
        return JSONResponse(
            {
                "default_generation_settings": {"n_ctx": status.context_tokens},
                "model_alias": status.model,
                "modalities": {"vision": False, "audio": False},
                "is_sleeping": status.state == "unloaded",
            }
        )

    async def tokenize(asked: Asked) -> Answer:
        body: TokenizeBody = asked.body
        return JSONResponse({"tokens": await engine.tokenize(body.content, special=body.parse_special)})

    async def detokenize(asked: Asked) -> Answer:
        body: DetokenizeBody = asked.body
        return JSONResponse({"content": await engine.detokenize(body.tokens)})

    return [
        Endpoint(
            "POST", "/infill", "Fill the hole between prefix and suffix", infill, TypeAdapter(InfillBody)
        ),
        Endpoint("GET", "/health", "Whether the service runs", health),
        Endpoint("GET", "/props", "The model in memory", props),
        Endpoint("POST", "/tokenize", "Text to token ids", tokenize, TypeAdapter(TokenizeBody)),
        Endpoint("POST", "/detokenize", "Token ids to text", detokenize, TypeAdapter(DetokenizeBody)),
    ]


async def _events(service: Service, request: InfillRequest) -> AsyncGenerator[bytes, None]:
    async with aclosing(whole(service.engine.infill(request))) as deltas:
        async for delta in deltas:
            if delta.finish is None:
                yield event({"index": 0, "content": delta.text, "stop": False})
            else:
                yield event(_last(delta.text, delta))


def _failed(problem: Problem) -> bytes:
    return event(error_body(Api.LLAMA_CPP, problem))


StopType = Literal["eos", "limit", "word"]


def _last(text: str, last: TextDelta) -> dict[str, object]:
    """An answer that has ended. Rates are 0 where nothing was measured."""
    stop_type: StopType = "limit" if last.finish is FinishReason.LENGTH else "word" if last.stop else "eos"
    answer: dict[str, object] = {
        "index": 0,
        "content": text,
        "stop": True,
        "stop_type": stop_type,
        "stopping_word": last.stop,
        "truncated": False,
        "has_new_line": "\n" in text,
    }
    if (timing := last.timing) is not None:
        computed = timing.prompt_tokens - timing.cached_tokens
        answer |= {
            "tokens_predicted": timing.generated_tokens,
            "tokens_evaluated": timing.prompt_tokens,
            "tokens_cached": timing.prompt_tokens + timing.generated_tokens,
            "timings": {
                "cache_n": timing.cached_tokens,
                **_speed("prompt", computed, timing.prefill_s),
                **_speed("predicted", timing.generated_tokens, timing.decode_s),
            },
        }
    return answer


def _speed(name: str, tokens: int, seconds: float) -> dict[str, float]:
    return {
        f"{name}_n": tokens,
        f"{name}_ms": seconds * 1000,
        f"{name}_per_token_ms": seconds * 1000 / tokens if tokens else 0.0,
        f"{name}_per_second": tokens / seconds if seconds else 0.0,
    }


def _selected(answer: dict[str, object], fields: list[str] | None) -> dict[str, object]:
    """The fields asked for; "timings/prompt_n" is the one inside the other, and keeps that name."""
    if fields is None:
        return answer
    selected: dict[str, object] = {}
    for field in fields:
        value: object = answer
        for part in field.split("/"):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            selected[field] = value
    return selected
