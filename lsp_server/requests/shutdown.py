"""`shutdown`: stop all work, free the model, keep only the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from lsp_server.transport.methods import Method
from lsp_server.transport.protocol import Phase

if TYPE_CHECKING:
    from lsp_server.server import HearthServer


def handle(server: HearthServer, _: None) -> Coroutine[None, None, None]:
    """From here on every other request is refused."""
    server.protocol.phase = Phase.SHUT_DOWN
    return _shut_down(server)


async def _shut_down(server: HearthServer) -> None:
    await server.dispatcher.close()
    await asyncio.sleep(0)  # the requests just dropped send their answers
    await server.close()


METHOD = Method(lsp.SHUTDOWN, None, handle)
