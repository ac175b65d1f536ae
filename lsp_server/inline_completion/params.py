"""Params of inline completion: the standard's, and the extras that Copilot clients send."""

from __future__ import annotations

from lsprotocol import types as lsp

from lsp_server.transport.params import params_class


@params_class
class VersionedDocument:
    """A document, and the version that the client means if it says so."""

    uri: str
    version: int | None = None


@params_class
class FormattingExtras:
    """The editor's indentation for this document."""

    tab_size: int | None = None
    insert_spaces: bool | None = None


@params_class
class InlineCompletionParams:
    """`textDocument/inlineCompletion`."""

    text_document: VersionedDocument
    position: lsp.Position
    context: lsp.InlineCompletionContext
    formatting_options: FormattingExtras | None = None
