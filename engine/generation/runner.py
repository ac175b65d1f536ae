"""The generation loop: one step takes the most urgent requests one prefill chunk or one token further."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.backends.base import Backend
from engine.errors import HearthError, RequestError
from engine.generation.prefix_cache import Kept, PrefixCache
from engine.generation.scheduler import Scheduler
from engine.generation.sequence import Sequence
from engine.generation.speed import Speed
from engine.types import FinishReason, TextDelta


@dataclass(frozen=True, slots=True)
class Batch:
    """One forward: `rows[i]` tokens of `sequences[i]`."""

    sequences: list[Sequence]
    rows: list[int]


class Runner:
    """Runs requests on a backend. Used from one thread, `cancel` excepted.

    Every request that `submit` takes ends by exactly one event (see `Sequence.emit`), or `drain` returns it.
    """

    def __init__(
        self, backend: Backend, speed: Speed, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._backend = backend
        self._speed = speed
        self._clock = clock
        self._scheduler = Scheduler(backend.kv_tokens)
        self._cache = PrefixCache(backend)
        self._running: Batch | None = None

    @property
    def busy(self) -> bool:
        return bool(self._scheduler.requests)

    def submit(self, sequence: Sequence) -> None:
        """Queue a request; whatever is wrong with it is emitted, not raised."""
        sequence.arrived = sequence.arrived or self._clock()
        try:
            self._check(sequence)
            self._scheduler.add(sequence)
        except RequestError as error:
            sequence.emit(error)
            return
        self._supersede_warming(sequence)

    def cancel(self, sequence: Sequence) -> None:
        """From any thread: end the request, at the latest after the token that is being computed."""
        sequence.cancelled = True
        batch = self._running
        # Interrupting costs the whole step, so do it only where the step is mostly this request's.
        if batch is not None and sequence in batch.sequences:
            own = batch.rows[batch.sequences.index(sequence)]
            if 2 * own > sum(batch.rows):
                self._backend.cancel()

    def step(self) -> None:
        """Advance the most urgent requests by one forward."""
        self._end_cancelled()
        if not self.busy:
            return
        batch = self._next_batch()
        logits = self._forward(batch)
        if logits is None:
            return
        sampled = iter(logits)
        for sequence, rows in zip(batch.sequences, batch.rows, strict=True):
            sequence.computed += rows
            if sequence.pending == 0:
                self._advance(sequence, next(sampled) if sequence.output is not None else None)

    def drain(self) -> list[Sequence]:
        """Forget every request and return them, for the caller to end; the backend may be broken by now."""
        requests = list(self._scheduler.requests)
        for sequence in requests:
            self._scheduler.remove(sequence)
        return requests

    def _check(self, sequence: Sequence) -> None:
        length, limit = len(sequence.prompt) + sequence.max_tokens, self._backend.context_tokens
        if length > limit:
            raise RequestError(
                f"The request needs {length} tokens, but the model's window holds {limit}.",
                action="Shorten the text, or load the model with a larger context.",
            )
        if not sequence.prompt:
            raise RequestError("The prompt is empty, so there is nothing to continue.")
        if not 0 <= min(sequence.prompt) <= max(sequence.prompt) < self._backend.n_vocab:
            raise RequestError(
                f"The prompt has tokens outside the model's vocabulary of {self._backend.n_vocab}.",
                meaning="The tokenizer and the weights of this model do not belong together.",
                action="Fetch the model again or choose another one.",
            )

    def _supersede_warming(self, newer: Sequence) -> None:
        for sequence in self._scheduler.requests:
            if sequence.prefill_only and sequence.session == newer.session != "" and sequence is not newer:
                sequence.cancelled = True

    def _end_cancelled(self) -> None:
        for sequence in [request for request in self._scheduler.requests if request.cancelled]:
            self._finish(sequence, FinishReason.CANCELLED)

    def _next_batch(self) -> Batch:
        """Every ready request that decodes, and one prefill chunk of the oldest that does not."""
        batch = Batch([], [])
        prefilling = False
        for sequence in self._scheduler.ready():
            decoding = sequence.kv is not None and sequence.pending == 1
            if not decoding:
                if prefilling:
                    continue
                prefilling = True
                if sequence.kv is None:
                    self._start(sequence)
            batch.sequences.append(sequence)
            batch.rows.append(min(sequence.pending, self._speed.chunk_tokens))
        return batch

    def _start(self, sequence: Sequence) -> None:
        """Give the request a backend sequence, with as much of its prompt as is known already.

        The last token is always computed, since the next one is drawn from its logits.
        """
        running = [
            Kept(other.kv, np.asarray(other.tokens[: other.computed], np.int32), other.session)
            for other in self._scheduler.requests
            if other.kv is not None
        ]
        sequence.kv, sequence.computed = self._cache.acquire(sequence.tokens[:-1], running)
        if sequence.started == 0:
            sequence.started = self._clock()
            sequence.cached = sequence.computed

    def _forward(self, batch: Batch) -> NDArray[np.float32] | None:
        """Logits of the sequences that are complete after this step; None when the step did not happen."""
        seqs = np.repeat(np.array([sequence.kv for sequence in batch.sequences], np.int32), batch.rows)
        tokens = [
            sequence.tokens[sequence.computed : sequence.computed + rows]
            for sequence, rows in zip(batch.sequences, batch.rows, strict=True)
        ]
        want_logits = np.zeros(len(seqs), np.bool_)
        for sequence, rows, end in zip(batch.sequences, batch.rows, np.cumsum(batch.rows), strict=True):
            want_logits[end - 1] = sequence.pending == rows and not sequence.prefill_only
        begin = self._clock()
        self._running = batch
        try:
            logits = self._backend.forward(seqs, np.concatenate(tokens).astype(np.int32), want_logits)
        except InterruptedError:
            return None
        except MemoryError:
            self._free_memory()
            return None
        finally:
            self._running = None
        self._speed.record(len(seqs), len(batch.sequences), self._clock() - begin)
        return logits

    def _free_memory(self) -> None:
        """Make room for the step that found the page pool full; the next step tries again."""
        if self._cache.evict_one():
            return
        first, victim = self._scheduler.requests[0], self._scheduler.victim()
        if victim is None or victim is first:
            self._fail(
                first,
                RequestError(
                    f"The KV cache of {self._backend.kv_tokens} tokens is too small for this request.",
                    action="Load the model with a smaller context, or free some memory.",
                ),
            )
            return
        # Its tokens stay, and are computed again when there is room.
        self._release(victim)

    def _advance(self, sequence: Sequence, logits: NDArray[np.float32] | None) -> None:
        """Go on after the last known token was computed: with the next one, or to the end."""
        sequence.decoding = sequence.decoding or self._clock()
        if sequence.output is None or logits is None:
            self._finish(sequence, FinishReason.LENGTH)
            return
        try:
            drawn = sequence.output.draw(logits, sequence.tokens)
        except HearthError as error:
            self._fail(sequence, error)
            return
        sequence.tokens.append(drawn.token)
        sequence.unsent_tokens += 1
        sequence.unsent_logprob += drawn.logprob
        if drawn.finish is not None:
            self._finish(sequence, drawn.finish, drawn.text)
        elif sequence.generated == sequence.max_tokens:
            self._finish(sequence, FinishReason.LENGTH, drawn.text + sequence.output.flush())
        elif drawn.text:
            sequence.emit(self._delta(sequence, drawn.text))

    def _delta(self, sequence: Sequence, text: str, finish: FinishReason | None = None) -> TextDelta:
        first = sequence.unsent_tokens == sequence.generated
        timing = sequence.timing(self._clock()) if first or finish is not None else None
        delta = TextDelta(text, sequence.unsent_tokens, sequence.unsent_logprob, finish, timing)
        sequence.unsent_tokens, sequence.unsent_logprob = 0, 0.0
        return delta

    def _finish(self, sequence: Sequence, finish: FinishReason, text: str = "") -> None:
        """End the request and leave its KV to the next one that begins alike."""
        if sequence.kv is not None and sequence.computed > 0:
            self._cache.keep(sequence.kv, sequence.tokens[: sequence.computed], sequence.session)
        elif sequence.kv is not None:
            self._backend.free_sequence(sequence.kv)
        self._scheduler.remove(sequence)
        sequence.emit(self._delta(sequence, text, finish))

    def _fail(self, sequence: Sequence, error: HearthError) -> None:
        self._release(sequence)
        self._scheduler.remove(sequence)
        sequence.emit(error)

    def _release(self, sequence: Sequence) -> None:
        if sequence.kv is not None:
            self._backend.free_sequence(sequence.kv)
        sequence.kv, sequence.computed = None, 0
