"""Work-done progress for one piece of work, shown only by clients that can."""

from __future__ import annotations

import logging

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.protocol import JsonRPCProtocol

log = logging.getLogger(__name__)


class Progress:
    """One progress bar; `end` may come before the client has agreed to show it, which then shows nothing."""

    def __init__(self, protocol: JsonRPCProtocol, token: str) -> None:
        self._protocol = protocol
        self._token = token
        self._ended = False
        self._begun = False

    async def begin(self, title: str) -> None:
        """Ask the client for a bar and start it."""
        try:
            await self._protocol.send_request_async(
                lsp.WINDOW_WORK_DONE_PROGRESS_CREATE, lsp.WorkDoneProgressCreateParams(token=self._token)
            )
        except JsonRpcException:
            log.info("the client shows no progress")
            return
        if not self._ended:
            self._begun = True
            self._notify(lsp.WorkDoneProgressBegin(title=title, cancellable=False))

    def end(self, message: str = "") -> None:
        """Take the bar away."""
        if self._begun and not self._ended:
            self._notify(lsp.WorkDoneProgressEnd(message=message or None))
        self._ended = True

    def _notify(self, value: lsp.WorkDoneProgressBegin | lsp.WorkDoneProgressEnd) -> None:
        self._protocol.notify(lsp.PROGRESS, lsp.ProgressParams(token=self._token, value=value))
