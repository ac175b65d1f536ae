"""`initialized` and `exit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from lsp_server.transport.methods import Method

if TYPE_CHECKING:
    from lsp_server.server import HearthServer


def initialized(server: HearthServer, _: None) -> None:
    """The client is ready for our requests: read the settings, then load the model."""
    server.start()


def leave(server: HearthServer, _: None) -> None:
    """The exit code depends on whether shutdown came before (see transport.stdio)."""
    server.stopped.set()


METHODS = (Method(lsp.INITIALIZED, None, initialized), Method(lsp.EXIT, None, leave))
