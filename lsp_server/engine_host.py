"""The engine behind the server: loaded in the background, loaded anew when its settings change."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from engine.client import EngineClient
from engine.errors import EngineUnavailable, HearthError
from lsp_server.inline_completion.policy import Answer, Question
from lsp_server.settings import Settings
from lsp_server.transport.logs import describe

log = logging.getLogger(__name__)

EngineFactory = Callable[[Settings], Awaitable[EngineClient]]
"""Returns once the model is in memory; raises HearthError when it cannot be."""


class Policy(Protocol):
    """What the server asks of a completion policy; `inline_completion.policy.CompletionPolicy` is one."""

    async def answer(self, question: Question) -> Answer: ...
    def follow(self, question: Question, /) -> bool: ...
    async def warm(self, question: Question) -> None: ...
    def shown(self, suggestion_id: str, /) -> None: ...
    def accepted(self, suggestion_id: str, /) -> None: ...
    def partially_accepted(self, suggestion_id: str, accepted_length_utf16: int, /) -> None: ...
    def forget(self, uri: str, /) -> None: ...


PolicyFactory = Callable[[EngineClient], Policy]


RETRY_SECONDS = 30.0
"""Between attempts to load what has failed; each is shown to the user."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """What did not load, and when that was."""

    settings: Settings
    when: float


class EngineHost:
    """Holds the engine and the policy that uses it; both are None until loaded.

    on_loading, on_ready, on_failed: told of each change, on the event loop.
    """

    def __init__(
        self,
        factory: EngineFactory,
        policy_factory: PolicyFactory,
        *,
        on_loading: Callable[[], None],
        on_ready: Callable[[], None],
        on_failed: Callable[[HearthError], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._factory = factory
        self._policy_factory = policy_factory
        self._on_loading = on_loading
        self._on_ready = on_ready
        self._on_failed = on_failed
        self._loading: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()  # the newest load has ended, well or badly
        self.engine: EngineClient | None = None
        self.policy: Policy | None = None
        self.error: HearthError | None = None
        self._clock = clock
        self._failed: _Failed | None = None

    def load(self, settings: Settings) -> None:
        """Load the engine that the settings name, in the background; one already there is closed first."""
        self._ended.clear()
        self._failed = None
        before, self._loading = self._loading, asyncio.create_task(self._load(settings, self._loading))
        if before is not None:
            before.cancel()

    async def wait_ready(self) -> Policy:
        """The policy, once loaded, also when no load has begun yet: the settings are then on their way.

        Raises the HearthError for which loading failed, or EngineUnavailable.
        """
        while True:
            await self._ended.wait()
            if not self._ended.is_set():
                continue  # a newer load has begun
            if self.policy is None:
                raise self.error or EngineUnavailable("The model is not loaded.")
            return self.policy

    def try_again(self) -> None:
        """Load once more what failed to load, unless that was a moment ago: by now a model may be fetched."""
        failed = self._failed
        if failed is not None and self._clock() - failed.when >= RETRY_SECONDS:
            self.load(failed.settings)

    async def close(self) -> None:
        """Stop loading, or close the engine."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait({self._loading})
        await self._drop()
        self._ended.set()

    async def _load(self, settings: Settings, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        self._on_loading()
        await self._drop()
        try:
            self.engine = await self._factory(settings)
            self.policy = self._policy_factory(self.engine)
        except HearthError as error:
            log.error("the engine did not load: %s", error)
            self._failed = _Failed(settings, self._clock())
            self._end(error)
        except Exception as error:  # noqa: BLE001 - a fault of the engine must not end the server
            log.error("the engine did not load: %s", describe(error))
            self._end(
                EngineUnavailable(
                    "The model could not be loaded because of a fault inside Hearth.",
                    action="The log file has the details; `hearth.status` names it.",
                )
            )
        else:
            self._end(None)

    def _end(self, error: HearthError | None) -> None:
        self.error = error
        self._ended.set()
        if error is None:
            self._on_ready()
        else:
            self._on_failed(error)

    async def _drop(self) -> None:
        engine, self.engine, self.policy, self.error = self.engine, None, None, None
        if engine is not None:
            try:
                await engine.close()
            except Exception as error:  # noqa: BLE001 - it is going away either way
                log.error("closing the engine failed: %s", describe(error))
