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
from lsp_server.inline_completion.eligibility import why_excluded
from lsp_server.inline_completion.params import VersionedDocument
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
    if params.text_document is None:
        return
    uri = params.text_document.uri
    snapshot = server.documents.get(uri)
    if snapshot is None:
        return
    path = server.workspace.relative_path(uri)
    excluded = why_excluded(snapshot, path, server.settings)
    server.status.document(Status(kind="Inactive", message=excluded) if excluded else Status())
    if excluded or not snapshot.in_sync or server.engine.policy is None:
        return
    if params.position is not None:
        server.cursors[uri] = Place.at(snapshot, params.position, server.documents.encoding).cursor
    if uri in server.cursors:
        place = Place(snapshot, server.cursors[uri], server.documents.encoding)
        server.dispatcher.warm(uri, partial(_warm, server, place, path))


async def _warm(server: HearthServer, place: Place, path: str) -> None:
    if server.engine.policy is None:
        return
    try:
        await server.engine.policy.warm(place.question(server.settings, path))
    except HearthError as error:
        log.info("not warmed: %s", error)
    except Exception as error:  # noqa: BLE001 - warming is a favour; its failure costs nothing
        log.error("warming failed: %s", describe(error))


METHODS = (Method("textDocument/didFocus", FocusParams, did_focus),)
