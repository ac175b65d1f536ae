"""`textDocument/inlineCompletion`: excluded, loading, running, stale; `null`, `[]` or items."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from lsp_server.inline_completion.completion import Completion, Reply, Request, Result, nothing
from lsp_server.inline_completion.eligibility import why_excluded
from lsp_server.inline_completion.explanation import Explanation
from lsp_server.inline_completion.params import InlineCompletionParams
from lsp_server.inline_completion.question import Place
from lsp_server.status import Status
from lsp_server.transport.methods import Method

if TYPE_CHECKING:
    from lsp_server.server import HearthServer

NOT_SYNCED = (
    "A change of this document came out of order, or could not be read, so its text is not known for sure. "
    "Close the file and open it again."
)


def handle(server: HearthServer, params: InlineCompletionParams) -> Result | asyncio.Future[Reply | None]:
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
        return nothing()
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
        return nothing()
    server.status.document(Status())
    invoked = params.context.trigger_kind is lsp.InlineCompletionTriggerKind.Invoked
    if server.engine.error is not None:
        explanation.settle("nothing", server.engine_state_in_words())
        server.engine.try_again()
        return nothing()
    if server.engine.policy is None:
        # Editors ask at a key, not when the model is there: so the newest question waits for it.
        explanation.reason = server.engine_state_in_words()
    place = Place.at(snapshot, position, server.documents.encoding)
    server.cursors[uri] = place.cursor
    request = Request(
        place,
        path,
        invoked,
        params.context.selected_completion_info,
        params.formatting_options,
        explanation,
    )
    answer = server.dispatcher.submit(uri, Completion(server, request))
    answer.add_done_callback(partial(_note_cancelled, explanation))
    return answer


def _note_cancelled(explanation: Explanation, answer: asyncio.Future[Reply | None]) -> None:
    if explanation.outcome != "waiting":
        return
    if answer.cancelled():
        explanation.settle("cancelled", "The editor cancelled the request.")
    elif answer.exception() is None and answer.result() is None:
        explanation.settle("superseded", "A newer request for the same document came first.")


METHOD = Method(lsp.TEXT_DOCUMENT_INLINE_COMPLETION, InlineCompletionParams, handle)
