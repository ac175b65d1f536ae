"""The work on one request: wait for the model, ask the policy, fit the answer to the document of now."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from engine.errors import HearthError
from lsp_server.inline_completion.eligibility import why_excluded
from lsp_server.inline_completion.explanation import Explanation
from lsp_server.inline_completion.params import FormattingExtras
from lsp_server.inline_completion.policy import Answer, Question
from lsp_server.inline_completion.question import Place
from lsp_server.settings import Settings
from lsp_server.status import Kind, Status
from lsp_server.transport.logs import describe

if TYPE_CHECKING:
    from lsp_server.engine_host import Policy
    from lsp_server.server import HearthServer

log = logging.getLogger(__name__)

Result = lsp.InlineCompletionList | None
# Fits what was found to the document at the moment of sending: a key may come between answer and way out.
Reply = Callable[[], Result]
_FAULT = "The completion failed because of a fault inside Hearth; its log file has the details."


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the editor: where and how it asks, and the account that is kept of it.

    path: the document's, relative to the workspace, or "".
    """

    place: Place
    path: str
    invoked: bool
    selected: lsp.SelectedCompletionInfo | None
    formatting: FormattingExtras | None
    explanation: Explanation

    def excluded(self, settings: Settings) -> str:
        """Why the settings keep the document out; "" when they do not."""
        return why_excluded(self.place.snapshot, self.path, settings)

    def question(self, settings: Settings) -> Question:
        """What the policy is asked."""
        return self.place.question(
            settings, self.path, invoked=self.invoked, selected=self.selected, formatting=self.formatting
        )


class Completion:
    """Implements `dispatcher.Work`: a newer request takes the first one's place where the policy follows."""

    def __init__(self, server: HearthServer, request: Request) -> None:
        self._server = server
        self._request = request
        self._policy: Policy | None = None  # the one that is making an answer
        self._came = time.perf_counter()
        self._waited_s = 0.0

    async def run(self) -> Reply:
        """What gives items, [] or None; never an error for an expected failure."""
        server = self._server
        if not self._request.invoked and server.settings.debounceMs:
            await asyncio.sleep(server.settings.debounceMs / 1000)
        try:
            policy = self._policy = await server.engine.wait_ready()
            self._waited_s = time.perf_counter() - self._came
            # The settings may have come with the model.
            if excluded := self._request.excluded(server.settings):
                return partial(self._excluded, excluded)
            with server.status.busy():
                answer = await policy.answer(self._request.question(server.settings))
        except HearthError as error:
            log.warning("no completion: %s", error)
            return partial(self._failed, "Warning", str(error))
        except Exception as error:  # noqa: BLE001 - the editor gets "nothing", the log the cause
            log.error("completion failed: %s", describe(error))
            return partial(self._failed, "Error", _FAULT)
        return partial(self._fitted, answer)

    def follow(self, newer: Completion) -> bool:
        """Answer the newer request with the generation that runs."""
        policy = self._policy
        if policy is None or policy is not self._server.engine.policy:
            return False
        try:
            if not policy.follow(newer._request.question(self._server.settings)):
                return False
        except Exception as error:  # noqa: BLE001 - its own run will tell the editor
            log.error("following failed: %s", describe(error))
            return False
        self._request, self._waited_s = newer._request, 0.0
        return True

    def _failed(self, kind: Kind, words: str) -> Result:
        self._request.explanation.settle("failed", words)
        self._server.status.document(Status(kind=kind, message=words, command="hearth.status"))
        return nothing()

    def _excluded(self, words: str) -> Result:
        self._request.explanation.settle("nothing", words)
        self._server.status.document(Status(kind="Inactive", message=words))
        return nothing()

    def _fitted(self, answer: Answer) -> Result:
        place, explanation = self._request.place, self._request.explanation
        explanation.trace = {"waited_s": round(self._waited_s, 4), **answer.trace}
        now = self._server.documents.get(place.snapshot.uri)
        if now is None or place.typed_since(now) is None:
            explanation.settle("stale", "The document changed in another way while the answer was made.")
            return None
        most = self._server.settings.suggestions if self._request.invoked else 1
        items = [item for one in answer.suggestions[:most] if (item := place.item(one, now)) is not None]
        if items:
            explanation.settle("shown", answer.reason, suggestions=len(items))
        elif now.version != place.snapshot.version:
            explanation.settle("stale", "What was typed meanwhile does not agree with the suggestion.")
            return None
        else:
            explanation.settle("nothing", answer.reason)
        return lsp.InlineCompletionList(items=items)


def nothing() -> lsp.InlineCompletionList:
    """The honest "nothing": the editor clears what it shows."""
    return lsp.InlineCompletionList(items=[])
