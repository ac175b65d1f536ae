"""The open documents, each as an immutable snapshot of one version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lsprotocol import types as lsp

from lsp_server.documents.encoding import PositionEncoding
from lsp_server.documents.positions import span_of
from lsp_server.documents.text_buffer import TextBuffer

ContentChange = lsp.TextDocumentContentChangePartial | lsp.TextDocumentContentChangeWholeDocument


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of one document; safe to keep across awaits.

    in_sync: False once a change arrived out of order, or was lost, so the text may differ from the editor's.
        Only a whole-text change or a re-open makes it True again.
    """

    uri: str
    language_id: str
    version: int
    buffer: TextBuffer
    in_sync: bool = True


class Documents:
    """The open documents by URI, exactly as the client spells it (`%20` and `%2520` stay apart)."""

    def __init__(self, encoding: PositionEncoding = PositionEncoding.UTF16) -> None:
        self.encoding = encoding
        self._open: dict[str, Snapshot] = {}

    def get(self, uri: str) -> Snapshot | None:
        """The latest version, or None when the document is not open."""
        return self._open.get(uri)

    def open(self, item: lsp.TextDocumentItem) -> Snapshot:
        """Start to mirror a document; a second open of the same URI replaces the first."""
        snapshot = Snapshot(item.uri, item.language_id, item.version, TextBuffer.from_text(item.text))
        self._open[item.uri] = snapshot
        return snapshot

    def close(self, uri: str) -> Snapshot | None:
        """Forget a document; returns what was known of it."""
        return self._open.pop(uri, None)

    def lose_sync(self, uri: str | None = None) -> None:
        """A change was lost: of one document, or, without a URI, perhaps of any."""
        for lost in [uri] if uri is not None else list(self._open):
            if (snapshot := self._open.get(lost)) is not None:
                self._open[lost] = replace(snapshot, in_sync=False)

    def change(self, uri: str, version: int, changes: Sequence[ContentChange]) -> Snapshot | None:
        """Apply the changes in order, each to the result of the one before; None when it is not open.

        Versions must grow (LSP specification, VersionedTextDocumentIdentifier). When one does not, changes
        were lost or swapped: they are applied as they come, but the snapshot is no longer `in_sync`.
        """
        old = self._open.get(uri)
        if old is None:
            return None
        buffer, in_sync = old.buffer, old.in_sync and version > old.version
        for change in changes:
            if isinstance(change, lsp.TextDocumentContentChangeWholeDocument):
                buffer, in_sync = TextBuffer.from_text(change.text), True
            else:
                start, end = span_of(buffer, change.range, self.encoding)
                buffer = buffer.replace(start, end, change.text)
        snapshot = replace(old, version=version, buffer=buffer, in_sync=in_sync)
        self._open[uri] = snapshot
        return snapshot
