"""What a client may be told when a request fails: a code of the protocol and one sentence."""

from __future__ import annotations

from lsprotocol.types import ErrorCodes, LSPErrorCodes


class RpcError(Exception):
    """An error response. The message is for people: no traceback, no path, no source text."""

    def __init__(self, code: ErrorCodes | LSPErrorCodes, message: str) -> None:
        super().__init__(message)
        self.code = int(code)
        self.message = message


class InvalidParamsError(RpcError):
    """The params of a message do not fit its method."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCodes.InvalidParams, message)
