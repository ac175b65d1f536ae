"""A stock pygls server in memory, to show each defect that ours must not have."""

import asyncio
import json

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer


class Stock:
    """pygls as its documentation shows it, fed with raw bodies the way its own read loop does."""

    def __init__(self):
        self.sent = []
        self.commands = []
        self.params = []
        self.server = LanguageServer("stock", "1")
        self.server.protocol.set_writer(self)

        @self.server.feature(lsp.TEXT_DOCUMENT_INLINE_COMPLETION, lsp.InlineCompletionOptions())
        def complete(params: lsp.InlineCompletionParams):
            self.params.append(params)
            if params.position.line == 13:
                raise ValueError("secret text")
            return lsp.InlineCompletionList(items=[])

        @self.server.command("echo")
        def echo(*args):
            self.commands.append(args)

        @self.server.feature("custom/method")
        def custom(params):
            self.params.append(params)

    def write(self, data):
        self.sent.append(json.loads(data.split(b"\r\n\r\n", 1)[1]))

    def close(self): ...

    async def send(self, message):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        try:
            parsed = json.loads(body, object_hook=self.server.protocol.structure_message)
            self.server.protocol.handle_message(parsed)
        except Exception as error:  # noqa: BLE001 - as pygls.io_.run_async does
            self.server.report_server_error(error, JsonRpcException)
        for _ in range(5):
            await asyncio.sleep(0)

    async def initialize(self):
        params = {"processId": None, "rootUri": None, "capabilities": {}}
        await self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})

    def responses(self, message_id):
        return [m for m in self.sent if "method" not in m and m.get("id") == message_id]

    def popups(self):
        return [m["params"]["message"] for m in self.sent if m.get("method") == "window/showMessage"]


@pytest.fixture
def stock():
    return Stock()
