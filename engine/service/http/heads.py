"""A deadline for the heads of requests, which uvicorn does not have: its h11 protocol with a timer."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


class PromptHeads(H11Protocol):
    """Closes a connection whose request's head has not come whole in HEAD_SECONDS.

    Counted from the connection's beginning, and on one that is kept alive from the next request's first byte.
    Bodies have a deadline of their own (`settings.Limits`).
    """

    HEAD_SECONDS: float

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        if self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
            self._await_head()
        super().data_received(data)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def heads_within(seconds: float) -> type[PromptHeads]:
    """The protocol with a deadline: uvicorn makes its protocols itself, so it has to be the class's."""

    class Heads(PromptHeads):
        HEAD_SECONDS = seconds

    return Heads
