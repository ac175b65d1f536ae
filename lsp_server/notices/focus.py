"""`textDocument/didFocus`: which document the user looks at; it alone is made warm.

`position` is our extension: with it the notice also tells of cursor moves, so that the prompt is prefilled
before a key is pressed. Without it the place of the last edit or request is used, if there was one.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from engine.errors import HearthError
from lsp_server.engine_host import Policy
from lsp_server.inline_completion.eligibility import why_excluded
from lsp_server.inline_completion.params import VersionedDocument
from lsp_server.inline_completion.policy import Question
from lsp_server.inline_completion.question import Place
from lsp_server.status import Status
from lsp_server.transport.logs import describe
from lsp_server.transport.methods import Method
from lsp_server.transport.params import params_class

if TYPE_CHECKING:
    from lsp_server.server import HearthServer

log = logging.getLogger(__name__)


@params_class
class FocusParams:
    """No text_document: the focus has left all documents."""

    text_document: VersionedDocument | None = None
    position: lsp.Position | None = None


def did_focus(server: HearthServer, params: FocusParams) -> None:
    """Stop warming what has lost the focus; warm what has got it."""
    server.dispatcher.stop_warming()
    server.focused = params.text_document.uri if params.text_document else None
    snapshot = server.documents.get(server.focused) if server.focused else None
    if snapshot is None:
        return
    excluded = why_excluded(snapshot, server.workspace.relative_path(snapshot.uri), server.settings)
    server.status.document(Status(kind="Inactive", message=excluded) if excluded else Status())
    if params.position is not None:
        place = Place.at(snapshot, params.position, server.documents.encoding)
        server.cursors[snapshot.uri] = place.cursor
    warm_focused(server)


def warm_focused(server: HearthServer) -> None:
    """Prefill at the user's place in the focused document, if all of these are known and allowed."""
    uri = server.focused
    snapshot = server.documents.get(uri) if uri else None
    if uri is None or snapshot is None or uri not in server.cursors or server.engine.policy is None:
        return
    path = server.workspace.relative_path(uri)
    if snapshot.in_sync and not why_excluded(snapshot, path, server.settings):
        place = Place(snapshot, server.cursors[uri], server.documents.encoding)
        server.dispatcher.warm(
            uri, partial(_warm, server.engine.policy, place.question(server.settings, path))
        )


async def _warm(policy: Policy, question: Question) -> None:
    try:
        await policy.warm(question)
    except HearthError as error:
        log.info("not warmed: %s", error)
    except Exception as error:  # noqa: BLE001 - warming is a favour; its failure costs nothing
        log.error("warming failed: %s", describe(error))


METHODS = (Method("textDocument/didFocus", FocusParams, did_focus),)
