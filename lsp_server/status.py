"""`didChangeStatus`: what a status bar shows. The shape is the one that Copilot clients already read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

METHOD = "didChangeStatus"
Kind = Literal["Normal", "Error", "Warning", "Inactive"]


@dataclass(frozen=True, slots=True)
class Status:
    """What the status bar shows.

    busy: work is going on.
    message: for people.
    kind: "Inactive" means that nothing will come for this document.
    command: a command of the server that tells more.
    """

    busy: bool = False
    message: str = ""
    kind: Kind = "Normal"
    command: str | None = None

    def as_params(self) -> dict[str, object]:
        """The notice's params."""
        params: dict[str, object] = {"busy": self.busy, "message": self.message, "kind": self.kind}
        if self.command is not None:
            params["command"] = {"title": "Tell me more", "command": self.command, "arguments": []}
        return params


class StatusReporter:
    """Composes the status and sends it when it really changes.

    The engine's trouble hides everything else, then comes its loading, then the document's own status.
    """

    def __init__(self, send: Callable[[dict[str, object]], None]) -> None:
        self._send = send
        self._sent: Status | None = None
        self._running = 0
        self._engine: Status | None = None
        self._document = Status()

    @property
    def current(self) -> Status:
        """What is, or would be, shown."""
        base = self._engine or self._document
        return replace(base, busy=base.busy or self._running > 0)

    def engine(self, status: Status | None) -> None:
        """The engine's loading or failure; None when it is ready."""
        self._engine = status
        self._publish()

    def document(self, status: Status) -> None:
        """The status of the document that is worked on."""
        self._document = status
        self._publish()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Show activity while the block runs, however it ends; none for one that has no need to wait."""
        self._running += 1
        asyncio.get_running_loop().call_soon(self._publish)
        try:
            yield
        finally:
            self._running -= 1
            self._publish()

    def _publish(self) -> None:
        if self.current != self._sent:
            self._sent = self.current
            self._send(self._sent.as_params())
