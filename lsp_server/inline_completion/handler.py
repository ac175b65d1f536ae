"""`textDocument/inlineCompletion`: excluded, loading, running, stale; `null`, `[]` or items."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from engine.errors import HearthError
from lsp_server.inline_completion.eligibility import why_excluded
from lsp_server.inline_completion.explanation import Explanation
from lsp_server.inline_completion.params import InlineCompletionParams
from lsp_server.inline_completion.policy import Answer
from lsp_server.inline_completion.question import Place
from lsp_server.status import Status
from lsp_server.transport.logs import describe
from lsp_server.transport.methods import Method

if TYPE_CHECKING:
    from lsp_server.server import HearthServer

log = logging.getLogger(__name__)

Result = lsp.InlineCompletionList | None
NOT_SYNCED = (
    "The editor's changes to this document came out of order, so its text is not known for sure. "
    "Close the file and open it again."
)


def handle(server: HearthServer, params: InlineCompletionParams) -> Result | asyncio.Future[Result]:
    """Answer at once where there is nothing to ask the model, else hand over to the dispatcher.

    Items, an empty list for an honest "nothing" (the editor clears what it shows), or None for an answer
    that no longer matters (the editor leaves what it shows as it is). Expected failures are no errors here:
    editors log those in the user's face.
    """
    uri, position = params.text_document.uri, params.position
    snapshot = server.documents.get(uri)
    if snapshot is None:
        server.protocol.complain_once(
            f"unopened {uri}", "a completion was asked for a document that is not open"
        )
        return _nothing()
    explanation = Explanation(uri, snapshot.version, position.line, position.character)
    server.explanations.start(explanation)
    if params.text_document.version not in (None, snapshot.version):
        explanation.settle(
            "stale", "The editor asked about another version of the document than it last sent."
        )
        return None
    path = server.workspace.relative_path(uri)
    excluded = why_excluded(snapshot, path, server.settings)
    if not excluded and not snapshot.in_sync:
        excluded = NOT_SYNCED
    if excluded:
        server.dispatcher.drop(uri)
        explanation.settle("nothing", excluded)
        server.status.document(Status(kind="Inactive", message=excluded))
        return _nothing()
    server.status.document(Status())
    invoked = params.context.trigger_kind is lsp.InlineCompletionTriggerKind.Invoked
    if server.engine.policy is None and not invoked:
        explanation.settle("nothing", server.engine_state_in_words())
        return _nothing()
    place = Place.at(snapshot, position, server.documents.encoding)
    server.cursors[uri] = place.cursor
    answer = server.dispatcher.submit(uri, partial(_complete, server, params, place, path, explanation))
    answer.add_done_callback(partial(_note_cancelled, explanation))
    return answer


async def _complete(
    server: HearthServer, params: InlineCompletionParams, place: Place, path: str, explanation: Explanation
) -> Result:
    invoked = params.context.trigger_kind is lsp.InlineCompletionTriggerKind.Invoked
    if not invoked and server.settings.debounceMs:
        await asyncio.sleep(server.settings.debounceMs / 1000)
    question = place.question(
        server.settings,
        path,
        invoked=invoked,
        selected=params.context.selected_completion_info,
        formatting=params.formatting_options,
    )
    try:
        policy = await server.engine.wait_ready()
        with server.status.busy():
            answer = await policy.answer(question)
    except HearthError as error:
        log.warning("no completion: %s", error)
        explanation.settle("failed", str(error))
        server.status.document(Status(kind="Warning", message=str(error), command="hearth.status"))
        return _nothing()
    except Exception as error:  # noqa: BLE001 - the editor gets "nothing", the log the cause
        log.error("completion failed: %s", describe(error))
        words = "The completion failed because of a fault inside Hearth; its log file has the details."
        explanation.settle("failed", words)
        server.status.document(Status(kind="Error", message=words, command="hearth.status"))
        return _nothing()
    return _result(server, place, answer, explanation, most=server.settings.suggestions if invoked else 1)


def _result(
    server: HearthServer, place: Place, answer: Answer, explanation: Explanation, *, most: int
) -> Result:
    explanation.trace = answer.trace
    now = server.documents.get(place.snapshot.uri)
    if now is None or place.typed_since(now) is None:
        explanation.settle("stale", "The document changed in another way while the answer was made.")
        return None
    items = [item for one in answer.suggestions[:most] if (item := place.item(one, now)) is not None]
    if items:
        explanation.settle("shown", answer.reason, suggestions=len(items))
    elif now.version != place.snapshot.version:
        explanation.settle("stale", "What was typed meanwhile does not agree with the suggestion.")
        return None
    else:
        explanation.settle("nothing", answer.reason)
    return lsp.InlineCompletionList(items=items)


def _note_cancelled(explanation: Explanation, answer: asyncio.Future[Result]) -> None:
    if explanation.outcome != "waiting":
        return
    if answer.cancelled():
        explanation.settle("cancelled", "The editor cancelled the request.")
    elif answer.exception() is None and answer.result() is None:
        explanation.settle("superseded", "A newer request for the same document came first.")


def _nothing() -> lsp.InlineCompletionList:
    return lsp.InlineCompletionList(items=[])


METHOD = Method(lsp.TEXT_DOCUMENT_INLINE_COMPLETION, InlineCompletionParams, handle)
