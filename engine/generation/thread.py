"""The one thread that owns everything native: it loads the model, runs the requests and frees it all."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from engine.backends.base import Backend
from engine.errors import EngineUnavailable, HearthError
from engine.generation.disk_tier import DiskMetrics, DiskTier
from engine.generation.metrics import EngineMetrics
from engine.generation.prompting import Prompting
from engine.generation.runner import Runner
from engine.generation.scheduler import MAX_REQUESTS
from engine.generation.sequence import Sequence
from engine.generation.speed import Speed, self_test

# Closing takes at most about so long to save what is warm.
SAVE_SECONDS = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """What loading gives: the thing that computes logits, and the thing that speaks its language.

    disk: where the KV cache survives a restart; None keeps it in memory alone.
    """

    backend: Backend
    prompting: Prompting
    disk: DiskTier | None = None


class EngineThread:
    """Loads a model in the background, then serves requests until closed.

    All methods may be called from any thread. A request that `submit` took gets its last event in every
    case: when it ends, when the engine fails, or when it is closed.

    load: called on the engine thread; raises HearthError with words for the user, or InterruptedError after
        `stop_loading`, which may be called on any thread, at any time, and returns at once.
    max_requests: see `Scheduler`.
    """

    def __init__(
        self,
        load: Callable[[], LoadedModel],
        max_requests: int = MAX_REQUESTS,
        stop_loading: Callable[[], None] = lambda: None,
    ) -> None:
        self._load = load
        self._stop_loading = stop_loading
        self._max_requests = max_requests
        self._wake = threading.Condition()
        self._arrivals: deque[Sequence] = deque()
        self._nudged = False
        self._closing = False
        self._stopped: HearthError | None = None
        self._model: LoadedModel | None = None
        self._runner: Runner | None = None
        self.speed = Speed()
        self.loaded = threading.Event()
        """Set once loading ended, well or badly."""
        self._thread = threading.Thread(target=self._run, name="hearth-engine", daemon=True)
        self._thread.start()

    def state(self) -> str:
        """One of EngineStatus.state's values. Raises EngineUnavailable once closed."""
        if self._closing:
            raise _closed()
        if self._stopped is not None:
            return "failed"
        if self._runner is None:
            return "loading"
        return "busy" if self._arrivals or self._runner.busy else "ready"

    @property
    def failure(self) -> HearthError | None:
        """Why the engine no longer runs."""
        return self._stopped

    def model(self) -> LoadedModel:
        """The loaded model. Raises EngineUnavailable while there is none, or the error that ended it."""
        with self._wake:
            return self._available()

    def submit(self, sequence: Sequence) -> None:
        """Hand a request over. Raises EngineUnavailable, or the error that ended the engine."""
        with self._wake:
            self._available()
            self._arrivals.append(sequence)
            self._wake.notify()

    def cancel(self, sequence: Sequence) -> None:
        """End a request early; its last event follows within about one token."""
        sequence.cancelled = True
        if self._runner is not None:
            self._runner.cancel(sequence)
        self._nudge()

    def metrics(self) -> EngineMetrics:
        """Counts and sizes as of now; zeros while there is no model."""
        runner, model = self._runner, self._model
        if runner is None or model is None:
            return EngineMetrics()
        disk = model.disk.metrics() if model.disk is not None else DiskMetrics()
        return replace(runner.metrics, disk=disk)

    def close(self) -> None:
        """Stop, end every request and free the model; returns when the thread has ended."""
        with self._wake:
            self._closing = True
            self._wake.notify()
            model = self._model
        self._stop_loading()
        if model is not None:
            model.backend.cancel()
        self._thread.join()

    def _available(self) -> LoadedModel:
        if self._closing:
            raise _closed()
        if self._stopped is not None:
            raise self._stopped.again()
        if self._model is None or self._runner is None:
            raise EngineUnavailable("The model is still loading.", action="Try again in a moment.")
        return self._model

    def _run(self) -> None:
        error: HearthError = _closed()
        try:
            self._serve(self._start())
        except HearthError as failure:
            error = failure
        except InterruptedError:  # while it loaded
            pass
        except Exception as failure:  # the border to the user: anything becomes words
            log.exception("The engine thread failed")
            error = EngineUnavailable(
                f"The engine stopped because of an internal error ({type(failure).__name__}: {failure}).",
                meaning="There will be no suggestions until it is started again.",
                action="Restart the language server; if it happens again, report it with the log.",
            )
        self._stop(error)

    def _start(self) -> Runner:
        model = self._load()
        with self._wake:
            self._model = model
        with suppress(InterruptedError):
            if not self._closing:
                self_test(model.backend, self.speed)
        runner = Runner(model.backend, self.speed, disk=model.disk, max_requests=self._max_requests)
        if model.disk is not None:
            model.disk.wake = self._nudge
        with self._wake:
            self._runner = runner
        self.loaded.set()
        return runner

    def _serve(self, runner: Runner) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(
                    lambda: self._closing or self._arrivals or self._nudged, runner.patience()
                )
                self._nudged = False
            if self._closing:
                runner.save(SAVE_SECONDS)
                _account(runner.clear())
                return
            while self._arrivals:
                runner.submit(self._arrivals.popleft())
            runner.step()

    def _nudge(self) -> None:
        """From any thread: something has changed that the runner may wait for."""
        with self._wake:
            self._nudged = True
            self._wake.notify()

    def _stop(self, error: HearthError) -> None:
        with self._wake:
            self._stopped = error
        self.loaded.set()
        live = self._runner.drain() if self._runner is not None else []
        for sequence in [*live, *self._arrivals]:
            sequence.emit(error.again())
        self._arrivals.clear()
        if self._model is not None:
            if self._model.disk is not None:
                self._model.disk.close(0.0)
            self._model.backend.close()


def _account(lost_tokens: int) -> None:
    """Tell the log what became of the KV pages; the soak (`bench.soak`) reads it there."""
    if lost_tokens:
        log.warning("KV pages of %s tokens were not given back", lost_tokens)
    else:
        log.info("all KV pages were given back")


def _closed() -> EngineUnavailable:
    return EngineUnavailable("The engine was shut down.", action="Restart the language server.")
