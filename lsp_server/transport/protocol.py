"""JSON-RPC 2.0 as LSP uses it, on top of pygls: every request gets exactly one response, in words.

pygls keeps what it does well (outgoing requests and notices, message types). Incoming messages are ours from
the raw JSON on: pygls drops requests with wrong params unanswered, shows popups instead of responses, turns
nested `jsonrpc` objects into messages and writes source text to its log.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

from cattrs import Converter
from lsprotocol import types as lsp
from lsprotocol.types import ErrorCodes, LSPErrorCodes
from pygls.protocol import JsonRPCProtocol

from engine.errors import HearthError
from lsp_server.transport.errors import RpcError
from lsp_server.transport.logs import describe
from lsp_server.transport.methods import Method
from lsp_server.transport.params import structure
from lsp_server.transport.pending import MessageId, Pending

if TYPE_CHECKING:
    from lsp_server.server import HearthServer

log = logging.getLogger(__name__)


class Phase(Enum):
    """Where the session stands (LSP specification, "Lifecycle Messages")."""

    NEW = "not initialized"
    RUNNING = "running"
    SHUT_DOWN = "shut down"


class HearthProtocol(JsonRPCProtocol):
    """The server's end of one connection. All methods run on the event loop's thread."""

    _server: HearthServer

    def __init__(self, server: HearthServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self.phase = Phase.NEW
        self.pending = Pending()
        self.on_disconnect: Callable[[], None] = lambda: None
        self._complained: set[str] = set()

    # ---- incoming ----

    def handle_body(self, body: bytes) -> None:
        """Handle one message body. Never raises for what a client can send."""
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            log.warning("a message of %d bytes is not JSON", len(body))
            self.refuse_unreadable("The message is not valid JSON in UTF-8.")
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            message_id = message.get("id") if isinstance(message, dict) else None
            self._server.documents.lose_sync()  # an edit may have been in it
            self._send_error(
                message_id if _is_id(message_id) else None,
                RpcError(ErrorCodes.InvalidRequest, 'A message must be an object with "jsonrpc": "2.0".'),
            )
        elif "method" not in message:
            self._handle_reply(message)
        elif "id" in message:
            self._handle_incoming_request(message["id"], message["method"], message.get("params"))
        else:
            self._handle_notice(message["method"], message.get("params"))

    def refuse_unreadable(self, words: str) -> None:
        """Answer bytes that hold no message: the specification's parse error, with a null id.

        They may have been an edit, of any document.
        """
        self._server.documents.lose_sync()
        self._send_error(None, RpcError(ErrorCodes.ParseError, words))

    def _handle_incoming_request(self, message_id: object, name: object, params: object) -> None:
        if not _is_id(message_id) or not isinstance(name, str):
            self._send_error(
                message_id if _is_id(message_id) else None,
                RpcError(
                    ErrorCodes.InvalidRequest, "A request needs a number or string id and a method name."
                ),
            )
            return
        if message_id in self.pending:
            self._send_error(
                message_id, RpcError(ErrorCodes.InvalidRequest, f"The id {message_id} is already in use.")
            )
            return
        self.pending.start(message_id)
        try:
            method = self._request_method(name)
            typed = structure(params, method.params) if method.params else None
            result = method.handle(self._server, typed)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises, the client gets its response
            self._answer_failure(message_id, name, error)
            return
        if not inspect.isawaitable(result):
            self._answer(message_id, name, result)
            return
        work = asyncio.ensure_future(result)
        self.pending.attach(message_id, work)
        work.add_done_callback(partial(self._work_done, message_id, name))

    def _request_method(self, name: str) -> Method:
        if self.phase is Phase.NEW and name != lsp.INITIALIZE:
            raise RpcError(ErrorCodes.ServerNotInitialized, f"{name} came before initialize.")
        if self.phase is Phase.SHUT_DOWN:
            raise RpcError(ErrorCodes.InvalidRequest, f"{name} came after shutdown.")
        method = self._server.requests.get(name)
        if method is None:
            raise RpcError(ErrorCodes.MethodNotFound, f"{name} is not a request that Hearth serves.")
        return method

    def _work_done(self, message_id: MessageId, name: str, work: asyncio.Future[Any]) -> None:
        if work.cancelled():
            # Cancelled by us and not by $/cancelRequest, which settles first: the server is going down.
            self._answer_failure(message_id, name, _server_cancelled(name))
        elif error := work.exception():
            self._answer_failure(message_id, name, error)
        else:
            self._answer(message_id, name, work.result())

    def _handle_notice(self, name: object, params: object) -> None:
        if name == lsp.CANCEL_REQUEST:
            self._cancel(params)
            return
        if not isinstance(name, str) or (self.phase is not Phase.RUNNING and name != lsp.EXIT):
            return
        method = self._server.notices.get(name)
        if method is None:
            return  # unknown notices, `$/` ones above all, may be ignored
        try:
            method.handle(self._server, structure(params, method.params) if method.params else None)
        except RpcError as error:
            self.complain_once(name, f"{name} was ignored: {error.message}")
            method.lost(self._server, params)
        except Exception as error:  # noqa: BLE001 - a notice has no response; the server must live on
            log.error("%s failed: %s", name, describe(error))
            method.lost(self._server, params)

    def _cancel(self, params: object) -> None:
        message_id = params.get("id") if isinstance(params, dict) else None
        if _is_id(message_id) and self.pending.cancel(message_id):
            self._send_error(
                message_id,
                RpcError(LSPErrorCodes.RequestCancelled, "The request was cancelled by the client."),
            )

    def _handle_reply(self, message: dict[str, Any]) -> None:
        message_id = message.get("id")
        if not _is_id(message_id) or message_id not in self._request_futures:
            return
        error = message.get("error")
        if error is None:
            self._handle_response(message_id, message.get("result"))
            return
        code = error.get("code") if isinstance(error, dict) else None
        words = error.get("message") if isinstance(error, dict) else None
        self._handle_response(
            message_id,
            error=lsp.ResponseError(
                code=code if isinstance(code, int) else int(ErrorCodes.InternalError), message=str(words)
            ),
        )

    # ---- outgoing ----

    def cancel_all(self) -> None:
        """Stop all work in flight and answer each request; for shutdown."""
        for message_id in self.pending.ids():
            if self.pending.cancel(message_id):
                self._send_error(message_id, _server_cancelled("the request"))

    def complain_once(self, key: str, words: str) -> None:
        """Log a client's mistake the first time it happens; repeated ones would only fill the log."""
        if key not in self._complained:
            self._complained.add(key)
            log.warning("%s (further ones are not logged)", words)

    def _answer(self, message_id: MessageId, name: str, result: object) -> None:
        try:
            plain = self._converter.unstructure(result() if callable(result) else result)
        except Exception as error:  # noqa: BLE001 - a result that cannot be sent is a failure like any other
            self._answer_failure(message_id, name, error)
            return
        if self.pending.settle(message_id):
            self._send_data({"jsonrpc": "2.0", "id": message_id, "result": plain})

    def _answer_failure(self, message_id: MessageId, name: str, error: BaseException) -> None:
        if isinstance(error, RpcError):
            told = error
        elif isinstance(error, HearthError):
            told = RpcError(LSPErrorCodes.RequestFailed, str(error))
        else:
            log.error("%s failed: %s", name, describe(error))
            told = RpcError(
                ErrorCodes.InternalError, f"{name} failed inside Hearth; its log file has the details."
            )
        if self.pending.settle(message_id):
            self._send_error(message_id, told)

    def _send_error(self, message_id: MessageId | None, error: RpcError) -> None:
        self._send_data(
            {"jsonrpc": "2.0", "id": message_id, "error": {"code": error.code, "message": error.message}}
        )

    def _send_data(self, data: Any) -> None:
        """Write one message; replaces pygls' version, which logs every body."""
        if self.writer is None:
            return
        body = json.dumps(data, default=self._serialize_message).encode("ascii")
        try:
            self.writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        except (OSError, ValueError):  # the pipe is broken, or already closed
            log.warning("the client no longer reads")
            self.writer = None
            self.on_disconnect()


def _server_cancelled(name: str) -> RpcError:
    return RpcError(LSPErrorCodes.ServerCancelled, f"Hearth is shutting down; {name} was not finished.")


def _is_id(value: object) -> TypeGuard[MessageId]:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
