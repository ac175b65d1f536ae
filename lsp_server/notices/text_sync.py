"""`textDocument/didOpen`, `didChange` and `didClose`: the mirror of the editor's text.

None of them ever waits on the engine.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from lsp_server.documents.positions import offset_at
from lsp_server.transport.methods import Method

if TYPE_CHECKING:
    from lsp_server.server import HearthServer

log = logging.getLogger(__name__)


def did_open(server: HearthServer, params: lsp.DidOpenTextDocumentParams) -> None:
    """Mirror a document."""
    if server.documents.get(params.text_document.uri) is not None:
        log.warning("a document was opened twice; the newer text is kept")
        server.forget(params.text_document.uri)
    server.documents.open(params.text_document)


def did_change(server: HearthServer, params: lsp.DidChangeTextDocumentParams) -> None:
    """Apply an edit."""
    uri, version = params.text_document.uri, params.text_document.version
    old = server.documents.get(uri)
    if old is None:
        server.protocol.complain_once(f"change {uri}", "a change came for a document that is not open")
        return
    new = server.documents.change(uri, version, params.content_changes)
    # For measuring: this clock is the same for every process of the machine.
    log.debug("version %d applied at %d ns", version, time.perf_counter_ns())
    if new is not None and old.in_sync and not new.in_sync:
        log.warning(
            "version %d came after version %d: no completions in this document until its whole text is sent",
            version,
            old.version,
        )
    server.cursors.pop(uri, None)
    last = params.content_changes[-1] if params.content_changes else None
    if new is not None and isinstance(last, lsp.TextDocumentContentChangePartial):
        start = offset_at(new.buffer, last.range.start, server.documents.encoding)
        server.cursors[uri] = min(start + len(last.text), len(new.buffer))


def did_close(server: HearthServer, params: lsp.DidCloseTextDocumentParams) -> None:
    """Forget a document and all that was kept for it."""
    server.documents.close(params.text_document.uri)
    server.forget(params.text_document.uri)


def lost(server: HearthServer, params: object) -> None:
    """An opening or an edit that could not be taken in: what is mirrored is no longer the editor's text."""
    document = params.get("textDocument") if isinstance(params, dict) else None
    uri = document.get("uri") if isinstance(document, dict) else None
    if isinstance(uri, str):
        server.documents.lose_sync(uri)


METHODS = (
    Method(lsp.TEXT_DOCUMENT_DID_OPEN, lsp.DidOpenTextDocumentParams, did_open, lost),
    Method(lsp.TEXT_DOCUMENT_DID_CHANGE, lsp.DidChangeTextDocumentParams, did_change, lost),
    Method(lsp.TEXT_DOCUMENT_DID_CLOSE, lsp.DidCloseTextDocumentParams, did_close),
)
