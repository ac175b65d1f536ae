"""Asking the rules in order, the cache before the engine, and remembering what became of each answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from engine.client import EngineClient
from engine.errors import HearthError
from engine.types import InfillRequest, Priority
from lsp_server.inline_completion.policy import silence
from lsp_server.inline_completion.policy.cache import Hit, Key, SuggestionCache
from lsp_server.inline_completion.policy.cursor import Cursor, read_cursor
from lsp_server.inline_completion.policy.following import Following
from lsp_server.inline_completion.policy.latest import Latest
from lsp_server.inline_completion.policy.look import Look
from lsp_server.inline_completion.policy.offers import Offers
from lsp_server.inline_completion.policy.place import invalid
from lsp_server.inline_completion.policy.shape import Shaped, shape
from lsp_server.inline_completion.policy.stream import Generated, Generation
from lsp_server.inline_completion.policy.undone import Undone
from lsp_server.inline_completion.policy.utf16 import code_points
from lsp_server.inline_completion.policy.values import Answer, Question, Suggestion

_UNFIT = "The suggestion does not fit the entry chosen in the completion list."
_UNDONE = "The same suggestion was just taken here, and undone."
# Sampled alternatives are often alike: so many more draws than wanted items are tried.
_EXTRA_DRAWS = 2


class CompletionPolicy:
    """Turns questions into answers. One per server; used from one event loop."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine
        self._cache = SuggestionCache()
        self._undone = Undone()
        self._offers = Offers()
        self._latest: Latest[Cursor] = Latest()
        self._following = Following()
        self._background: set[asyncio.Task[None]] = set()

    async def answer(self, question: Question) -> Answer:
        """The suggestions for one question, from the cache where it has them.

        Cancelling the call closes the engine's stream at once. Raises HearthError when the engine fails.
        """
        problem = invalid(question)
        if problem:
            return Answer((), problem, self._trace(question))
        look = self._look(question)
        self._latest[question.uri] = look.cursor
        if look.hits:
            return self._from_cache(look)
        if look.silent:
            return Answer((), look.silent, look.trace)
        return await self._from_engine(look)

    def follow(self, question: Question) -> bool:
        """Let the answer that is being made for the document be one to this newer question of it.

        Only where nothing is lost by that: both are automatic, the document has grown by what the model
        writes, and neither memory nor a rule of silence has the answer. False otherwise.
        """
        if question.invoked or question.selected is not None or invalid(question):
            return False
        if not self._following.may_follow(question):
            return False
        look = self._look(question)
        if look.hits or look.silent or not self._following.follow(look):
            return False
        self._latest[question.uri] = look.cursor
        return True

    def shown(self, suggestion_id: str) -> None:
        """The editor showed it."""
        self._offers.outcomes["shown"] += self._offers.get(suggestion_id) is not None

    def accepted(self, suggestion_id: str) -> None:
        """The user took all of it: the prompt of the text that results is prepared in the background."""
        offer = self._offers.settle(suggestion_id)
        if offer is None:
            return
        self._offers.outcomes["accepted"] += 1
        cursor = offer.look.cursor
        self._undone.remember(offer.uri, cursor, offer.text)
        request = replace(
            offer.look.request(),
            prefix=cursor.prefix + offer.text,
            suffix=cursor.suffix[offer.covers :],
            priority=Priority.BACKGROUND,
        )
        task = asyncio.get_running_loop().create_task(self._warm_quietly(request))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def partially_accepted(self, suggestion_id: str, accepted_length_utf16: int) -> None:
        """The user took its first accepted_length_utf16 UTF-16 units, counted from the start of insert_text.

        The rest needs no note: it is found again by the text that now stands before the cursor.
        """
        offer = self._offers.get(suggestion_id)
        if offer is None:
            return
        if code_points(offer.insert_text, accepted_length_utf16) >= len(offer.insert_text):
            self.accepted(suggestion_id)
        else:
            self._offers.outcomes["partially accepted"] += 1

    def forget(self, uri: str) -> None:
        """The document was closed, renamed or deleted: nothing about it is kept."""
        self._cache.forget(uri)
        self._undone.forget(uri)
        self._latest.pop(uri)
        self._offers.forget(uri)

    async def warm(self, question: Question) -> None:
        """Prepare the prompt of a question that may soon be asked. Raises HearthError."""
        if invalid(question):
            return
        await self._engine.warm(replace(self._look(question).request(), priority=Priority.BACKGROUND))

    def _trace(self, question: Question) -> dict[str, Any]:
        return {
            "invoked": question.invoked,
            "version": question.version,
            "outcomes": dict(self._offers.outcomes),
        }

    def _look(self, question: Question) -> Look:
        """Changes nothing."""
        cursor = read_cursor(question)
        hits = self._hits(question, cursor)
        silent = None
        if not question.invoked:
            deleting = self._is_deleting(question.uri, cursor)
            silent = silence.before_asking(cursor, deleting=deleting)
        return Look(question, cursor, hits, silent, self._trace(question) | {"cache_hit": bool(hits)})

    def _is_deleting(self, uri: str, cursor: Cursor) -> bool:
        before = self._latest.get(uri)
        if before is None or before.suffix[:200] != cursor.suffix[:200]:
            return False
        removed = before.position - cursor.position
        return removed > 0 and before.prefix[: len(before.prefix) - removed].endswith(cursor.prefix[-200:])

    def _hits(self, question: Question, cursor: Cursor) -> list[Hit]:
        hits = self._cache.find(Key.of(question), cursor)
        if question.invoked:
            # Fewer than asked for: the engine may find more.
            return hits[: question.count] if len(hits) >= question.count else []
        return hits[:1]

    def _from_cache(self, look: Look) -> Answer:
        question, cursor = look.question, look.cursor
        suggestions = []
        for hit in look.hits:
            if not question.invoked and self._undone.holds(question.uri, cursor, hit.text):
                return Answer((), _UNDONE, look.trace)
            suggestion = self._offers.make(look, hit.text, hit.covers)
            if suggestion is not None:
                suggestions.append(suggestion)
        if suggestions:
            words = "From memory: the text follows an earlier suggestion."
            return Answer(tuple(suggestions), words, look.trace)
        return Answer((), _UNFIT, look.trace)

    async def _from_engine(self, look: Look) -> Answer:
        wanted = max(1, look.question.count) if look.question.invoked else 1
        draws = wanted + _EXTRA_DRAWS if wanted > 1 else 1
        suggestions: list[Suggestion] = []
        reason = ""
        samples: list[dict[str, Any]] = []
        for sample in range(draws):
            look, generated = await self._generate(look, sample)
            cut, truncated = generated.cut, generated.truncated
            shaped = shape(generated.text, look.cursor, look.mode, cut=cut, truncated=truncated)
            suggestion, refused = self._judge(look, generated, shaped)
            if suggestion and any(other.insert_text == suggestion.insert_text for other in suggestions):
                suggestion, refused = None, "The same as another one."
            if suggestion:
                suggestions.append(suggestion)
                self._cache.add(Key.of(look.question), look.cursor, shaped.text, shaped.covers)
            reason = reason or refused
            shaping = {"steps": list(shaped.steps), "text": shaped.text, "covers": shaped.covers}
            samples.append(generated.trace | shaping | {"refused": refused})
            if len(suggestions) == wanted:
                break
        decided = {"cursor": _describe(look.cursor), "mode": str(look.mode), "mode_rule": look.mode_rule}
        trace = look.trace | decided | {"samples": samples}
        return Answer(tuple(suggestions), "From the model." if suggestions else reason, trace)

    async def _generate(self, look: Look, sample: int) -> tuple[Look, Generated]:
        """The model's text, and the question that it is for: the one given, or a newer one that followed."""
        while True:
            generation = Generation(self._engine, look.request(sample), look.cursor, look.mode)
            if look.question.invoked or look.question.selected is not None:
                generated = await generation.read()
            else:
                look, generated = await self._following.read(generation, look)
            if generated is not None:
                return look, generated

    def _judge(self, look: Look, generated: Generated, shaped: Shaped) -> tuple[Suggestion | None, str]:
        """The suggestion, or why there is none."""
        question, cursor = look.question, look.cursor
        refused = silence.worthless(shaped.text, cursor)
        if refused is None and not question.invoked:
            refused = silence.unsure(generated.mean_logprob)
            if refused is None and self._undone.holds(question.uri, cursor, shaped.text):
                refused = _UNDONE
        if refused is not None:
            return None, refused
        suggestion = self._offers.make(look, shaped.text, shaped.covers)
        return suggestion, "" if suggestion else _UNFIT

    async def _warm_quietly(self, request: InfillRequest) -> None:
        # Only a preparation: the next question tells the user if the engine is in trouble.
        with suppress(HearthError):
            await self._engine.warm(request)


def _describe(cursor: Cursor) -> dict[str, Any]:
    return {
        "inside": cursor.literal or "code",
        "empty_block": cursor.after_opener,
        "missing_closers": "".join(cursor.missing),
        "indent": "tabs" if cursor.unit.tabs else f"{cursor.unit.width} blanks",
        "prefix_characters": len(cursor.prefix),
        "suffix_characters": len(cursor.suffix),
    }
