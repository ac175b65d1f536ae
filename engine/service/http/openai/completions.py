"""POST /v1/completions: a text continued, or with a suffix, the hole between the two filled."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from pydantic import Field, TypeAdapter
from starlette.responses import JSONResponse

from engine.service.http.answers import DONE, EVENT_STREAM, Stream, event
from engine.service.http.choices import Usage, side_by_side
from engine.service.http.endpoint import Answer, Asked, Endpoint
from engine.service.http.fields import Stop, Stops, TokenId, Tokens, for_choice, new_id, now, stops
from engine.service.http.openai.fields import Choices, Sampled, StreamOptions, TopLogprobs
from engine.service.http.openai.logprobs import CompletionLogprobs
from engine.service.http.problems import Api, BadField, Problem, error_body
from engine.service.http.service import Service
from engine.types import CompletionRequest, InfillRequest, Priority, TextDelta

MAX_TOKENS = 16
"""What OpenAI documents for a request that does not say."""

Ids = Annotated[list[TokenId], Field(min_length=1)]
Prompts = Annotated[list[str], Field(min_length=1)] | Ids | Annotated[list[Ids], Field(min_length=1)]


class CompletionBody(Sampled):
    prompt: str | Prompts
    suffix: str | None = None
    max_tokens: Tokens | None = None
    n: Choices | None = None
    best_of: Choices | None = None
    echo: bool | None = None
    logprobs: TopLogprobs | None = None
    stop: Stop | Stops | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    def prompts(self) -> list[str | tuple[int, ...]]:
        """The prompts, each with its choices in the answer. Raises BadField for what does not go together."""
        given = self.prompt
        prompts: list[str | tuple[int, ...]]
        if isinstance(given, str):
            prompts = [given]
        elif isinstance(given[0], int):
            prompts = [tuple(one for one in given if isinstance(one, int))]
        else:
            prompts = [
                one if isinstance(one, str) else tuple(one) for one in given if not isinstance(one, int)
            ]
        if self.best_of is not None and self.best_of != (self.n or 1):
            raise BadField("best_of", "Only the value of n is supported.")
        if self.echo and self.logprobs is not None:
            raise BadField("echo", "The prompt's own log probabilities are not computed; leave out logprobs.")
        if self.stream_options is not None and not self.stream:
            raise BadField("stream_options", "Only for a request with stream: true.")
        if self.suffix is not None:
            if not all(isinstance(prompt, str) for prompt in prompts):
                raise BadField("suffix", "The prompt must be text when there is a suffix.")
            if self.logprobs is not None:
                raise BadField("logprobs", "Not supported together with suffix.")
        return prompts


def endpoints(service: Service) -> list[Endpoint]:
    async def complete(asked: Asked) -> Answer:
        body: CompletionBody = asked.body
        model = (await service.model(body.model)).name
        prompts = body.prompts()
        service.check_choices(len(prompts), body.n or 1)
        echoed = [await _echoed(service, prompt, model) if body.echo else "" for prompt in prompts]
        completion = _Completion(service, body, model, prompts, echoed)
        if body.stream:
            return Stream(completion.events(), EVENT_STREAM, _failed)
        return JSONResponse(await completion.answer())

    adapter = TypeAdapter(CompletionBody)
    return [Endpoint("POST", "/v1/completions", "Continue a text, or fill a hole", complete, adapter)]


async def _echoed(service: Service, prompt: str | tuple[int, ...], model: str) -> str:
    return prompt if isinstance(prompt, str) else await service.engine.detokenize(prompt, model=model)


def _failed(problem: Problem) -> bytes:
    return event(error_body(Api.OPENAI, problem)) + DONE


class _Completion:
    """One request on its way: a choice for each prompt and each of its n, prompt by prompt."""

    def __init__(
        self,
        service: Service,
        body: CompletionBody,
        model: str,
        prompts: list[str | tuple[int, ...]],
        echoed: list[str],
    ) -> None:
        self._service = service
        self._body = body
        self._model = model
        self._n = body.n or 1
        self._prompts = prompts
        self._echoed = [text for text in echoed for _ in range(self._n)]
        self._logprobs = [CompletionLogprobs() for _ in self._echoed]
        self._usage = Usage()
        self._head: dict[str, object] = {
            "id": new_id("cmpl-"),
            "object": "text_completion",
            "created": now(),
            "model": model,
        }

    async def answer(self) -> dict[str, object]:
        count = len(self._echoed)
        texts: list[list[str]] = [[text] for text in self._echoed]
        tokens: list[list[TextDelta]] = [[] for _ in range(count)]
        ends = [""] * count
        async with aclosing(self._deltas()) as deltas:
            async for index, delta in deltas:
                texts[index].append(delta.text)
                tokens[index].append(delta)
                if delta.finish is not None:
                    ends[index] = delta.finish.value
        choices = [
            self._choice(index, "".join(texts[index]), tokens[index], ends[index]) for index in range(count)
        ]
        return {**self._head, "choices": choices, "usage": self._usage.openai()}

    async def events(self) -> AsyncGenerator[bytes, None]:
        with_usage = self._body.stream_options is not None and self._body.stream_options.include_usage
        head = {**self._head, "usage": None} if with_usage else self._head
        begun: set[int] = set()
        async with aclosing(self._deltas()) as deltas:
            async for index, delta in deltas:
                text = delta.text if index in begun else self._echoed[index] + delta.text
                begun.add(index)
                if text or delta.logprobs or delta.finish is not None:
                    end = delta.finish.value if delta.finish is not None else None
                    yield event({**head, "choices": [self._choice(index, text, [delta], end)]})
        if with_usage:
            yield event({**self._head, "choices": [], "usage": self._usage.openai()})
        yield DONE

    async def _deltas(self) -> AsyncGenerator[tuple[int, TextDelta], None]:
        streams = [self._start(prompt, k) for prompt in self._prompts for k in range(self._n)]
        async with aclosing(side_by_side(streams)) as deltas:
            async for index, delta in deltas:
                self._usage.add(delta, first_of_prompt=index % self._n == 0)
                yield index, delta

    def _start(self, prompt: str | tuple[int, ...], index: int) -> AsyncGenerator[TextDelta, None]:
        body = self._body
        params = for_choice(body.params(self._service.defaults), index)
        max_tokens = body.max_tokens or MAX_TOKENS
        if body.suffix is not None and isinstance(prompt, str):
            hole = InfillRequest(
                prompt,
                body.suffix,
                max_tokens=max_tokens,
                sampling=params,
                stop=stops(body.stop),
                priority=Priority.COMPLETION,
            )
            return self._service.engine.infill(hole, self._model)
        request = CompletionRequest(
            prompt,
            max_tokens=max_tokens,
            sampling=params,
            stop=stops(body.stop),
            top_logprobs=body.logprobs,
        )
        return self._service.engine.complete(request, self._model)

    def _choice(self, index: int, text: str, deltas: list[TextDelta], end: str | None) -> dict[str, object]:
        logprobs = None
        if self._body.logprobs is not None:
            logprobs = self._logprobs[index].piece([token for delta in deltas for token in delta.logprobs])
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": end}
