"""Asking the rules in order, the cache before the engine, and remembering what became of each answer."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter, OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from engine.client import EngineClient
from engine.errors import HearthError
from engine.types import InfillRequest, Priority
from lsp_server.inline_completion.policy import silence
from lsp_server.inline_completion.policy.cache import Hit, Key, SuggestionCache
from lsp_server.inline_completion.policy.cursor import Cursor, read_cursor
from lsp_server.inline_completion.policy.declined import Declined
from lsp_server.inline_completion.policy.infill import infill_request
from lsp_server.inline_completion.policy.mode import Mode, decide_mode
from lsp_server.inline_completion.policy.place import fit_selected, invalid
from lsp_server.inline_completion.policy.shape import shape
from lsp_server.inline_completion.policy.stream import generate
from lsp_server.inline_completion.policy.utf16 import code_points
from lsp_server.inline_completion.policy.values import Answer, Question, Suggestion

# Answers and documents remembered; older ones are no longer on any screen.
_REMEMBERED = 128
_UNFIT = "The suggestion does not fit the entry chosen in the completion list."
_TURNED_DOWN = "The same suggestion was just turned down here."
# Sampled alternatives are often alike: so many more draws than wanted items are tried.
_EXTRA_DRAWS = 2


_T = TypeVar("_T")


@dataclass(frozen=True)
class _Offered:
    """A suggestion that was answered: what is needed when the editor says what became of it."""

    uri: str
    cursor: Cursor
    text: str
    covers: int
    insert_text: str
    request: InfillRequest


class CompletionPolicy:
    """Turns questions into answers. One per server; used from one event loop."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine
        self._cache = SuggestionCache()
        self._declined = Declined()
        self._offered: OrderedDict[str, _Offered] = OrderedDict()
        self._latest: OrderedDict[str, Cursor] = OrderedDict()
        self._outcomes: Counter[str] = Counter()
        self._background: set[asyncio.Task[None]] = set()

    async def answer(self, question: Question) -> Answer:
        """The suggestions for one question, from the cache where it has them.

        Cancelling the call closes the engine's stream at once. Raises HearthError when the engine fails.
        """
        trace: dict[str, Any] = {
            "invoked": question.invoked,
            "version": question.version,
            "outcomes": dict(self._outcomes),
        }
        problem = invalid(question)
        if problem:
            return Answer((), problem, trace)
        cursor = read_cursor(question)
        deleting = self._is_deleting(question.uri, cursor)
        _remember(self._latest, question.uri, cursor)
        trace["cursor"] = _describe(cursor)

        mode, mode_rule = decide_mode(cursor, question.mode, question.invoked)
        trace["mode"], trace["mode_rule"] = str(mode), mode_rule

        hits = self._hits(question, cursor)
        trace["cache_hit"] = bool(hits)
        if hits:
            return self._from_cache(question, cursor, mode, hits, trace)

        reason = None if question.invoked else silence.before_asking(cursor, deleting=deleting)
        if reason:
            return Answer((), reason, trace)
        return await self._from_engine(question, cursor, mode, trace)

    def shown(self, suggestion_id: str) -> None:
        """The editor showed it."""
        self._outcomes["shown"] += suggestion_id in self._offered

    def accepted(self, suggestion_id: str) -> None:
        """The user took all of it: the prompt of the text that results is prepared in the background."""
        offered = self._offered.pop(suggestion_id, None)
        if offered is None:
            return
        self._outcomes["accepted"] += 1
        self._declined.remember(offered.uri, offered.cursor, offered.text)
        request = replace(
            offered.request,
            prefix=offered.request.prefix + offered.text,
            suffix=offered.request.suffix[offered.covers :],
            priority=Priority.BACKGROUND,
        )
        task = asyncio.get_running_loop().create_task(self._warm_quietly(request))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def partially_accepted(self, suggestion_id: str, accepted_length_utf16: int) -> None:
        """The user took its first accepted_length_utf16 UTF-16 units, counted from the start of insert_text.

        The rest needs no note: it is found again by the text that now stands before the cursor.
        """
        offered = self._offered.get(suggestion_id)
        if offered is None:
            return
        if code_points(offered.insert_text, accepted_length_utf16) >= len(offered.insert_text):
            self.accepted(suggestion_id)
        else:
            self._outcomes["partially accepted"] += 1

    def rejected(self, suggestion_id: str) -> None:
        """The user turned it down: it is not offered again unasked."""
        offered = self._offered.pop(suggestion_id, None)
        if offered is not None:
            self._outcomes["rejected"] += 1
            self._declined.remember(offered.uri, offered.cursor, offered.text)

    def forget(self, uri: str) -> None:
        """The document was closed, renamed or deleted: nothing about it is kept."""
        self._cache.forget(uri)
        self._declined.forget(uri)
        self._latest.pop(uri, None)
        for suggestion_id in [key for key, offered in self._offered.items() if offered.uri == uri]:
            del self._offered[suggestion_id]

    async def warm(self, question: Question) -> None:
        """Prepare the prompt of a question that may soon be asked. Raises HearthError."""
        if invalid(question):
            return
        cursor = read_cursor(question)
        mode, _ = decide_mode(cursor, question.mode, question.invoked)
        await self._engine.warm(replace(infill_request(question, cursor, mode), priority=Priority.BACKGROUND))

    def _is_deleting(self, uri: str, cursor: Cursor) -> bool:
        before = self._latest.get(uri)
        if before is None or before.suffix[:200] != cursor.suffix[:200]:
            return False
        removed = before.position - cursor.position
        return removed > 0 and before.prefix[: len(before.prefix) - removed].endswith(cursor.prefix[-200:])

    def _hits(self, question: Question, cursor: Cursor) -> list[Hit]:
        hits = self._cache.find(Key.of(question), cursor)
        if question.invoked:
            return hits[: question.count] if len(hits) >= question.count else []
        return hits[:1]

    def _from_cache(
        self, question: Question, cursor: Cursor, mode: Mode, hits: list[Hit], trace: dict[str, Any]
    ) -> Answer:
        request = infill_request(question, cursor, mode)
        suggestions = []
        for hit in hits:
            if not question.invoked and self._declined.holds(question.uri, cursor, hit.text):
                return Answer((), _TURNED_DOWN, trace)
            suggestion = self._offer(question, cursor, hit.text, hit.covers, request)
            if suggestion is not None:
                suggestions.append(suggestion)
        if suggestions:
            return Answer(tuple(suggestions), "From memory: the text follows an earlier suggestion.", trace)
        return Answer((), _UNFIT, trace)

    async def _from_engine(
        self, question: Question, cursor: Cursor, mode: Mode, trace: dict[str, Any]
    ) -> Answer:
        wanted = max(1, question.count) if question.invoked else 1
        draws = wanted + _EXTRA_DRAWS if wanted > 1 else 1
        suggestions: list[Suggestion] = []
        reason = ""
        trace["samples"] = []
        for sample in range(draws):
            request = infill_request(question, cursor, mode, sample=sample)
            generated = await generate(self._engine, request, cursor, mode)
            shaped = shape(generated.text, cursor, mode, cut=generated.cut, truncated=generated.truncated)
            refused = silence.worthless(shaped.text, cursor)
            if refused is None and not question.invoked:
                refused = silence.unsure(generated.mean_logprob)
                if refused is None and self._declined.holds(question.uri, cursor, shaped.text):
                    refused = _TURNED_DOWN
            suggestion = None
            if refused is None:
                suggestion = self._offer(question, cursor, shaped.text, shaped.covers, request)
                if suggestion is None:
                    refused = _UNFIT
                elif any(other.insert_text == suggestion.insert_text for other in suggestions):
                    refused = "The same as another one."
                else:
                    suggestions.append(suggestion)
                    self._cache.add(Key.of(question), cursor, shaped.text, shaped.covers)
            reason = reason or refused or ""
            trace["samples"].append(
                generated.trace
                | {
                    "steps": list(shaped.steps),
                    "text": shaped.text,
                    "covers": shaped.covers,
                    "refused": refused or "",
                }
            )
            if len(suggestions) == wanted:
                break
        return Answer(tuple(suggestions), "From the model." if suggestions else reason, trace)

    def _offer(
        self, question: Question, cursor: Cursor, text: str, covers: int, request: InfillRequest
    ) -> Suggestion | None:
        """The suggestion as the editor is to apply it; None when it cannot stand with the selected entry."""
        start = end = question.offset
        insert_text = text
        if question.selected is not None:
            fitted = fit_selected(text, covers, cursor)
            if fitted is None:
                return None
            text, covers = fitted, 0
            start, end = question.selected.start, question.selected.end
            insert_text = question.selected.text + text
        suggestion = Suggestion(uuid.uuid4().hex, insert_text, start, end + covers)
        _remember(
            self._offered,
            suggestion.id,
            _Offered(question.uri, cursor, text, covers, insert_text, request),
        )
        return suggestion

    async def _warm_quietly(self, request: InfillRequest) -> None:
        # Only a preparation: the next question tells the user if the engine is in trouble.
        with suppress(HearthError):
            await self._engine.warm(request)


def _remember(memory: OrderedDict[str, _T], key: str, value: _T) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > _REMEMBERED:
        memory.popitem(last=False)


def _describe(cursor: Cursor) -> dict[str, Any]:
    return {
        "inside": cursor.literal or "code",
        "empty_block": cursor.after_opener,
        "missing_closers": "".join(cursor.missing),
        "indent": "tabs" if cursor.unit.tabs else f"{cursor.unit.width} blanks",
        "prefix_characters": len(cursor.prefix),
        "suffix_characters": len(cursor.suffix),
    }
