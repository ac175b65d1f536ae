"""Requests that wait for their response. Each gets exactly one."""

from __future__ import annotations

import asyncio

MessageId = int | str


class Pending:
    """The requests in flight, by id. Whoever `settle`s an id first is the one that may answer it."""

    def __init__(self) -> None:
        self._work: dict[MessageId, asyncio.Future[object] | None] = {}

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._work

    def start(self, message_id: MessageId) -> None:
        """A request has arrived."""
        self._work[message_id] = None

    def attach(self, message_id: MessageId, work: asyncio.Future[object]) -> None:
        """The request is being worked on by `work`, which cancelling it stops."""
        self._work[message_id] = work

    def settle(self, message_id: MessageId) -> bool:
        """True the first time for a request in flight; the caller then sends its response."""
        if message_id not in self._work:
            return False
        del self._work[message_id]
        return True

    def cancel(self, message_id: MessageId) -> bool:
        """Stop a request's work; True when it was in flight, and the caller then sends its response."""
        work = self._work.get(message_id)
        settled = self.settle(message_id)
        if work is not None:
            work.cancel()
        return settled

    def ids(self) -> list[MessageId]:
        """Ids in flight, oldest first."""
        return list(self._work)
