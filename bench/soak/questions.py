"""What the clients ask: a limited pool of questions of every kind, made from this repository's source."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.soak.answers import Answer
from bench.soak.asking import REPLAY, Question
from engine.types import (
    ChatMessage,
    ChatRequest,
    CompletionRequest,
    Constraint,
    ConstraintKind,
    EngineStatus,
    InfillRequest,
    SamplingParams,
    Tool,
    ToolChoice,
)

STREAMS, KEYS = 5, 10
CHATS, TURNS = 2, 4  # so many chats for each API
SYSTEM = "You are a careful programmer. Answer in a few words."
SAYINGS = ("What does this do?", "Name it.", "Is it fast?", "Shorter, please.", "And in C?", "Why?")
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["x", "yy", "zzz"]}, "count": {"type": "integer"}},
    "required": ["name", "count"],
    "additionalProperties": False,
}
LOOKUP = {"type": "object", "properties": {"word": {"enum": ["one", "two", "three"]}}, "required": ["word"]}

Ask = Callable[[Question], Awaitable[Answer]]


@dataclass(frozen=True, eq=False, slots=True)
class Known:
    """A question, and what a cold engine answered."""

    question: Question
    cold: Answer


Series = list[Known]
"""Questions that one client asks in this order: the keys of a text, the turns of a chat."""


class Pool:
    """Asks the cold engine everything that may be asked later.

    model: named in bodies. status: the cold engine's. ask: has the cold engine answer.
    tokens: of a text that was tokenised, to measure lengths by; text: that text.
    """

    def __init__(
        self, rng: random.Random, model: str, status: EngineStatus, ask: Ask, tokens: list[int], text: str
    ) -> None:
        self._rng = rng
        self._model = model
        self._window = status.context_tokens
        self._unit = min(self._window, 1024)
        self._infills = status.supports_infill
        self._calls_tools = bool(status.tool_format)
        self._ask = ask
        self._tokens = tokens
        self._text = text
        self._characters = len(text) / len(tokens)

    async def build(self) -> dict[str, list[Series]]:
        """Series by kind."""
        made: dict[str, list[Series]] = {}
        made["keys"] = [await self._all(self._keys(n)) for n in range(STREAMS)]
        made["chats"] = [await self._chat(api, n) for api in range(5) for n in range(CHATS)]
        for question in self._single():
            made.setdefault(question.kind, []).append(await self._all([question]))
        return made

    async def _all(self, questions: list[Question]) -> Series:
        return [Known(question, await self._ask(question)) for question in questions]

    def _cut(self, tokens: float) -> str:
        """About so many tokens of the text, from a random place."""
        length = int(tokens * self._characters)
        start = self._rng.randrange(len(self._text) - length)
        return self._text[start : start + length]

    def _keys(self, number: int) -> list[Question]:
        """Somebody types; the prompt outgrows its budget on the way, where the model can infill."""
        text, suffix = self._cut(0.25 * self._unit), self._cut(0.05 * self._unit)
        end = len(text) - 3 * KEYS
        questions = []
        for _ in range(KEYS):
            end += self._rng.randrange(1, 4)
            common: dict[str, Any] = {"session": f"keys {number}", "max_tokens": 10, "stop": ("\n\n",)}
            if self._infills:
                budget = int(0.22 * self._unit)
                request = InfillRequest(text[:end], suffix, "a.py", prompt_budget=budget, **common)
                questions.append(Question("keys", "infill", request))
            else:
                questions.append(Question("keys", "complete", CompletionRequest(text[:end], **common)))
        return questions

    async def _chat(self, api: int, number: int) -> Series:
        """A chat whose history grows by what the model says when cold."""
        history: list[dict[str, str]] = []
        series: Series = []
        for turn in range(TURNS):
            said = self._rng.choice(SAYINGS)
            content = f"{self._cut(0.05 * self._unit)}\n{said}" if turn == 0 else said
            history.append({"role": "user", "content": content})
            question = Question("chats", *self._turn(api, list(history), f"chat {api} {number}"))
            answer = await self._ask(question)
            series.append(Known(question, answer))
            history.append({"role": "assistant", "content": _content(api, answer)})
        return series

    def _turn(self, api: int, history: list[dict[str, str]], session: str) -> tuple[str, Any]:
        tokens = 12
        system = {"role": "system", "content": SYSTEM}
        openai = {"model": self._model, "messages": [system, *history], "max_tokens": tokens}
        match api:
            case 0:
                return "/v1/chat/completions", {**openai, "stream": True}
            case 1:
                return "/v1/chat/completions", openai
            case 2:
                body = {"model": self._model, "system": SYSTEM, "messages": history, "max_tokens": tokens}
                return "/v1/messages", {**body, "stream": True}
            case 3:
                body = {"model": self._model, "instructions": SYSTEM, "input": history}
                return "/v1/responses", {**body, "max_output_tokens": tokens, "stream": True}
        messages = tuple(ChatMessage(message["role"], message["content"]) for message in [system, *history])
        return "chat", ChatRequest(messages, session=session, max_tokens=tokens)

    def _single(self) -> list[Question]:
        return [
            *self._holes(),
            *self._sampled(),
            *self._constrained(),
            *(self._with_tools() if self._calls_tools else []),
            *self._around_the_window(),
            *self._small(),
        ]

    def _holes(self) -> list[Question]:
        """Below 256 tokens, where a prompt is never clipped to the machine's speed."""
        if not self._infills:
            return []
        questions = []
        for _ in range(3):
            prefix, suffix = self._cut(0.12 * self._unit), self._cut(0.05 * self._unit)
            openai = {"model": self._model, "prompt": prefix, "suffix": suffix, "max_tokens": 12}
            questions.append(Question("holes", "/v1/completions", {**openai, "stream": True}))
            body = {"input_prefix": prefix, "input_suffix": suffix, "n_predict": 12, "stream": True}
            questions.append(Question("holes", "/infill", body))
            questions.append(
                Question("warm", "warm", InfillRequest(prefix, suffix, session="warm", prompt_budget=200))
            )
        return questions

    def _sampled(self) -> list[Question]:
        plain: dict[str, Any] = {"model": self._model, "max_tokens": 12}
        body = {**plain, "temperature": 0.8, "top_p": 0.95}
        prompts = [self._cut(0.08 * self._unit) for _ in range(3)]
        return [
            *(
                Question(
                    "sampled", "/v1/completions", {**body, "prompt": prompt, "seed": seed, "stream": True}
                )
                for seed, prompt in enumerate(prompts)
            ),
            *(
                Question("choices", "/v1/completions", {**body, "prompt": prompt, "seed": 7, "n": 4})
                for prompt in prompts
            ),
            *(
                Question(
                    "logprobs",
                    "/v1/completions",
                    {**plain, "prompt": prompt, "logprobs": 2, "stream": True},
                )
                for prompt in prompts
            ),
        ]

    def _constrained(self) -> list[Question]:
        user = [{"role": "user", "content": self._cut(0.05 * self._unit) + "\nDescribe it in JSON."}]
        shape = {"type": "json_schema", "json_schema": {"name": "described", "schema": SCHEMA}}
        chat = {"model": self._model, "messages": user, "response_format": shape, "max_tokens": 40}
        constraints = (
            Constraint(ConstraintKind.JSON_SCHEMA, json.dumps(SCHEMA)),
            Constraint(ConstraintKind.REGEX, "[a-z]{3,12}( [a-z]{2,8}){2}"),
            Constraint(ConstraintKind.LARK, 'start: ("a" | "b") "-" NUMBER\nNUMBER: /[0-9]{2,6}/'),
        )
        return [
            Question("constrained", "/v1/chat/completions", {**chat, "stream": True}),
            *(
                Question(
                    "constrained",
                    "complete",
                    CompletionRequest(self._cut(0.05 * self._unit), max_tokens=40, constraint=constraint),
                )
                for constraint in constraints
            ),
        ]

    def _with_tools(self) -> list[Question]:
        user = {"role": "user", "content": "Look up the word " + self._cut(4).strip()}
        arguments = json.dumps({"word": "x"})
        call = {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": arguments}}
        replayed = [
            user,
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "a letter"},
        ]
        function = {"name": "lookup", "description": "Looks up a word", "parameters": LOOKUP}
        tools = [{"type": "function", "function": function}]
        openai = {"model": self._model, "tools": tools, "max_tokens": 48, "stream": True}
        claude = {
            "model": self._model,
            "messages": [user],
            "tools": [{"name": "lookup", "input_schema": LOOKUP}],
            "tool_choice": {"type": "any"},
            "max_tokens": 48,
            "stream": True,
        }
        own = ChatRequest(
            (ChatMessage("user", str(user["content"])),),
            max_tokens=48,
            tools=(Tool("lookup", "Looks up a word", LOOKUP),),
            tool_choice=ToolChoice.AUTO,
            sampling=SamplingParams(temperature=0.7, seed=6),
        )
        calling = replace(own, max_tokens=150, tool_choice=ToolChoice.REQUIRED, parallel_tool_calls=False)
        return [
            Question(
                "tools", "/v1/chat/completions", {**openai, "messages": [user], "tool_choice": "required"}
            ),
            Question("tools", "/v1/chat/completions", {**openai, "messages": replayed}),
            Question("tools", "/v1/messages", claude),
            Question("tools", "chat", own),
            Question("replays", REPLAY, calling),
            Question("replays", REPLAY, replace(calling, session="replay")),
        ]

    def _around_the_window(self) -> list[Question]:
        """Prompts that leave a few tokens of the window, and ones that are longer than it."""
        long = (self._tokens * 2)[: self._window + 5]
        nearly = tuple(long[9 : self._window])
        body = {"model": self._model, "max_tokens": 64}
        return [
            Question("nearly full", "/v1/completions", {**body, "prompt": long[: self._window - 12]}),
            Question("nearly full", "complete", CompletionRequest(nearly, max_tokens=64)),
            Question("too long", "/v1/completions", {**body, "prompt": long}),
        ]

    def _small(self) -> list[Question]:
        text = self._cut(40)
        counted = {"model": self._model, "messages": [{"role": "user", "content": text}]}
        return [
            Question("small", "/tokenize", {"content": text}),
            Question("small", "/detokenize", {"tokens": self._tokens[:50]}),
            Question("small", "/v1/messages/count_tokens", counted),
            Question("small", "/v1/models", None),
            Question("refused", "/v1/chat/completions", {**counted, "temperature": -1}),
            Question("refused", "/v1/completions", {"model": self._model, "prompt": text, "no_such": 1}),
            Question("refused", "/v1/completions", {"model": "no-such-model", "prompt": text}),
        ]


def _content(api: int, answer: Answer) -> str:
    """What the assistant said, for the next turn."""
    if api == 1:
        said = json.loads(answer.end.removeprefix("200 "))["choices"][0]["message"]["content"]
        return str(said or "...")
    return answer.text or "..."


def source_text() -> str:
    """This repository's own Python, for the texts of questions."""
    folder = Path(__file__).parents[2] / "engine"
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
