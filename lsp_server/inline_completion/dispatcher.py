"""At most one running and one waiting request per document; a newer one always wins.

Editors do not cancel what they no longer need (Neovim never does), and the last answer to arrive is the one
that they show. So the server cancels by itself: superseded requests are answered None (`null`, "keep what is
shown") at once, and the engine stops within a token; or, where the running work can serve the newer request
as well, that work goes on and answers it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, Self, TypeVar

T = TypeVar("T")
Out = TypeVar("Out", covariant=True)


class Work(Protocol[Out]):
    """What makes the answer to one request."""

    def run(self) -> Coroutine[None, None, Out]:
        """The answer. Cancelling it stops all that was begun for it."""
        ...

    def follow(self, newer: Self, /) -> bool:
        """While `run` runs: let it answer the newer request instead; False when it cannot."""
        ...


@dataclass(eq=False, slots=True)
class _Job(Generic[T]):
    work: Work[T]
    answer: asyncio.Future[T | None]
    task: asyncio.Task[T] | None = None
    stopping: bool = False

    async def run(self) -> T:
        """The work, unless the client cancelled it before its first turn."""
        if self.answer.done():
            raise asyncio.CancelledError
        return await self.work.run()

    def follow(self, newer: Work[T], answer: asyncio.Future[T | None]) -> bool:
        """Go on for a newer request and answer None to the older now; False when the work cannot do that."""
        stops = self.stopping or self.answer.cancelled() or self.task is None or self.task.done()
        if stops or not self.work.follow(newer):
            return False
        if not self.answer.done():
            self.answer.set_result(None)
        self.answer = answer
        return True

    def supersede(self) -> None:
        """Answer None now and stop the work; the task ends by itself a little later."""
        if not self.answer.done():
            self.answer.set_result(None)
        self.stop()

    def stop(self) -> None:
        """Cancel the work, once: a second cancellation would break into its clean-up."""
        if self.task is not None and not self.stopping:
            self.stopping = True
            self.task.cancel()


class Dispatcher(Generic[T]):
    """Runs completion work. All methods belong to the event loop's thread."""

    def __init__(self) -> None:
        self._running: dict[str, _Job[T]] = {}
        self._waiting: dict[str, _Job[T]] = {}
        self._warming: asyncio.Task[None] | None = None
        self._warming_key = ""

    def submit(self, key: str, work: Work[T]) -> asyncio.Future[T | None]:
        """Run `work` for the document `key` as soon as its predecessor has let go, or have that go on for it.

        The future gives the work's result or exception, or None when a newer request or `drop` came first.
        Cancelling the future cancels the work.
        """
        self.stop_warming()
        answer: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        running = self._running.get(key)
        if running is not None and running.follow(work, answer):
            answer.add_done_callback(partial(self._answered, key, running))
            return answer
        job = _Job(work, answer)
        answer.add_done_callback(partial(self._answered, key, job))
        if running is None:
            self._start(key, job)
            return answer
        if older := self._waiting.pop(key, None):
            older.supersede()
        self._waiting[key] = job
        running.supersede()
        return answer

    def drop(self, key: str) -> None:
        """Answer None to all requests of a document and stop their work."""
        if self._warming_key == key:
            self.stop_warming()
        for jobs in (self._waiting, self._running):
            if job := jobs.get(key):
                job.supersede()
        self._waiting.pop(key, None)

    def warm(self, key: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run `work` in the background while no request runs; any request, or a newer warm, stops it."""
        self.stop_warming()
        if not self._running:
            self._warming, self._warming_key = asyncio.create_task(work()), key

    def stop_warming(self) -> None:
        """Stop background work."""
        if self._warming is not None:
            self._warming.cancel()
            self._warming, self._warming_key = None, ""

    async def close(self) -> None:
        """Drop everything and wait until all work has really ended."""
        tasks: set[Awaitable[object]] = {job.task for job in self._running.values() if job.task}
        if self._warming is not None:
            tasks.add(self._warming)
        for key in {*self._running, *self._waiting}:
            self.drop(key)
        self.stop_warming()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, key: str, job: _Job[T]) -> None:
        self._running[key] = job
        job.task = asyncio.create_task(job.run())
        job.task.add_done_callback(partial(self._finished, key, job))

    def _finished(self, key: str, job: _Job[T], task: asyncio.Task[T]) -> None:
        error = None if task.cancelled() else task.exception()  # also marks the exception as seen
        if not job.answer.done():
            if task.cancelled():
                job.answer.set_result(None)
            elif error is not None:
                job.answer.set_exception(error)
            else:
                job.answer.set_result(task.result())
        del self._running[key]
        if waiting := self._waiting.pop(key, None):
            self._start(key, waiting)

    def _answered(self, key: str, job: _Job[T], answer: asyncio.Future[T | None]) -> None:
        if not answer.cancelled():
            return
        if self._waiting.get(key) is job:
            del self._waiting[key]
        else:
            job.stop()
