"""The generation loop: one step takes the most urgent requests one prefill chunk or one token further."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.backends.base import Backend
from engine.errors import DeadlineExceeded, EngineBusy, HearthError, RequestError
from engine.generation.disk_tier import DiskTier
from engine.generation.metrics import EngineMetrics
from engine.generation.prefix_cache import PrefixCache, token_array
from engine.generation.residency import Residency
from engine.generation.scheduler import MAX_REQUESTS, Scheduler
from engine.generation.sequence import Event, Sequence
from engine.generation.speed import MIN_CHUNK, Speed
from engine.types import FinishReason, Priority, TextDelta

# While every request waits for the disk, look so often whether one has waited too long.
RESTORE_TICK_SECONDS = 0.05

# After so long without a request, what is warm is saved to the disk: not between two keystrokes.
SAVE_AFTER_SECONDS = 5.0

# What a refused request is told to wait at least and at most.
RETRY_SECONDS = (1.0, 60.0)


@dataclass(frozen=True, slots=True)
class Batch:
    """One forward: `rows[i]` tokens of `sequences[i]`."""

    sequences: list[Sequence] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def add(self, sequence: Sequence, rows: int) -> None:
        self.sequences.append(sequence)
        self.rows.append(rows)


@dataclass(slots=True)
class _Counts:
    """Since the start; see `EngineMetrics`."""

    prefilled_tokens: int = 0
    generated_tokens: int = 0
    preemptions: int = 0
    refused: int = 0
    expired: int = 0


class Runner:
    """Runs requests on a backend. Used from one thread, `cancel` excepted.

    Every request that `submit` takes ends by exactly one event (see `Sequence.emit`), or `drain` returns it.

    metrics: a snapshot after the latest step; may be read from any thread.
    """

    def __init__(
        self,
        backend: Backend,
        speed: Speed,
        clock: Callable[[], float] = time.perf_counter,
        disk: DiskTier | None = None,
        max_requests: int = MAX_REQUESTS,
    ) -> None:
        self._backend = backend
        self._speed = speed
        self._clock = clock
        self._scheduler = Scheduler(backend.kv_tokens, max_requests)
        self._cache = PrefixCache(backend, disk)
        self._residency = Residency(backend, self._cache)
        self._ready: list[Sequence] = []
        self._running: Batch | None = None
        self._blocked = False
        self._sequences_short = False
        self._steps = 0
        self._last_active = clock()
        self._counts = _Counts()
        self.metrics = self._snapshot()

    @property
    def busy(self) -> bool:
        return bool(self._scheduler.requests)

    def patience(self) -> float | None:
        """For how many seconds `step` has nothing to do, unless something comes in; None for ever."""
        if self.busy:
            return RESTORE_TICK_SECONDS if self._blocked else 0.0
        if self._cache.unsaved:
            return max(0.0, self._last_active + SAVE_AFTER_SECONDS - self._clock())
        return None

    def submit(self, sequence: Sequence) -> None:
        """Queue a request; whatever is wrong with it is emitted, not raised."""
        sequence.arrived = sequence.arrived or self._clock()
        try:
            self._check(sequence)
            if self._scheduler.full(sequence.priority):
                raise self._busy()
        except HearthError as error:
            sequence.emit(error)
            return
        sequence.prompt_ids = token_array(sequence.prompt)
        self._scheduler.add(sequence)
        self._blocked = False
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
        """Advance the most urgent requests by one forward; without any, save a piece of what is warm."""
        self._end_cancelled()
        self._end_expired()
        if self.busy:
            self._advance_requests()
            self._last_active = self._clock()
        elif self.patience() == 0:
            self._cache.save_one()
        self.metrics = self._snapshot()

    def drain(self) -> list[Sequence]:
        """Forget every request and return them, for the caller to end; the backend may be broken by now."""
        requests = list(self._scheduler.requests)
        for sequence in requests:
            self._scheduler.remove(sequence)
        return requests

    def save(self, seconds: float) -> None:
        """Have everything that is warm written to the disk, for at most so long; the last thing to do."""
        for sequence in self._scheduler.requests:
            self._residency.keep(sequence)
        self._cache.save_all(seconds)

    def clear(self) -> int:
        """Free every sequence; returns for how many tokens there are pages that nobody holds and that are
        not free: 0, or there is a leak. The last thing to do, too."""
        for sequence in self._scheduler.requests:
            self._residency.free(sequence)
        self._cache.clear()
        return self._backend.kv_tokens - self._backend.free_tokens

    def _advance_requests(self) -> None:
        now = self._clock()
        self._residency.advance(self._scheduler.requests, now)
        self._sequences_short = False
        batch = self._next_batch(now)
        self._blocked = not batch.sequences
        if self._blocked and self._sequences_short:
            self._free_memory()
        logits = self._forward(batch) if batch.sequences else None
        if logits is None:
            return
        sampled = iter(logits)
        for sequence, rows in zip(batch.sequences, batch.rows, strict=True):
            self._counts.prefilled_tokens += min(rows, max(0, len(sequence.prompt) - sequence.computed))
            sequence.computed += rows
            sequence.last_run = now
            if sequence.pending == 0:
                self._advance(sequence, next(sampled) if sequence.output is not None else None)

    def _check(self, sequence: Sequence) -> None:
        length, limit = len(sequence.prompt) + sequence.max_tokens, self._backend.context_tokens
        if length > limit:
            raise RequestError(
                f"The request needs {length} tokens, but the model's window holds {limit}.",
                action="Shorten the text, or load the model with a larger context.",
            )
        if sequence.pooled is not None and self._backend.hidden_states is None:
            raise RequestError(f"{self._backend.name} makes no embeddings.", action="Choose another model.")
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

    def _busy(self) -> EngineBusy:
        requests = self._scheduler.requests
        prefill = sum(max(0, len(request.prompt) - request.computed) for request in requests)
        decode = sum(request.max_tokens - request.generated for request in requests)
        # About when the next of them ends, were all alike and served in turn.
        seconds = self._speed.seconds(prefill, decode) / len(requests)
        self._counts.refused += 1
        return EngineBusy(
            f"The engine already has {len(requests)} requests.",
            meaning="This one was not started.",
            action="Try again when some of them have ended.",
            retry_after=min(max(seconds, RETRY_SECONDS[0]), RETRY_SECONDS[1]),
        )

    def _end_cancelled(self) -> None:
        for sequence in [request for request in self._scheduler.requests if request.cancelled]:
            self._finish(sequence, FinishReason.CANCELLED)

    def _end_expired(self) -> None:
        now = self._clock()
        for sequence in list(self._scheduler.requests):
            if sequence.deadline is None or now < sequence.deadline:
                continue
            self._counts.expired += 1
            if sequence.output is not None and sequence.generated:
                self._finish(sequence, FinishReason.LENGTH, sequence.output.flush())
            else:
                self._end(
                    sequence,
                    DeadlineExceeded(
                        f"The request did not get to its first token in {now - sequence.arrived:.3g} s.",
                        meaning="The engine has too much to do for this time limit.",
                        action="Try again later, with a shorter prompt or more time.",
                    ),
                )

    def _next_batch(self, now: float) -> Batch:
        """Every ready request that decodes, and a chunk's worth of rows of those that do not.

        Prefills take turns: the one that waited longest goes first, and others get what it leaves of the
        chunk. Requests of less urgent classes, which run only because they starve, get the smallest chunk.
        """
        self._steps += 1
        self._ready = self._scheduler.ready(now)
        batch = Batch()
        for sequence in self._ready:
            if sequence.decodes and sequence.restore is None:
                batch.add(sequence, 1)
        prefills = [sequence for sequence in self._ready if not sequence.decodes]
        room = self._speed.chunk_tokens
        # Sorting is stable: those that have not had a turn keep their order of age.
        for sequence in sorted(prefills, key=lambda request: (request.priority, request.turn)):
            if sequence.priority != self._ready[0].priority:
                room = min(room, MIN_CHUNK)
            if room > 0 and self._can_run(sequence, now):
                rows = min(sequence.pending, room)
                batch.add(sequence, rows)
                room -= rows
                sequence.turn = self._steps
        return batch

    def _can_run(self, sequence: Sequence, now: float) -> bool:
        if sequence.kv is None and not self._residency.must_wait(sequence, self._ready):
            started = self._residency.start(sequence, self._scheduler.requests, now)
            self._sequences_short = self._sequences_short or not started
        return sequence.kv is not None and sequence.restore is None

    def _forward(self, batch: Batch) -> NDArray[np.float32] | None:
        """Logits of the sequences that are complete after this step; None when the step did not happen."""
        seqs = np.repeat(np.array([sequence.kv for sequence in batch.sequences], np.int32), batch.rows)
        tokens = [
            sequence.tokens[sequence.computed : sequence.computed + rows]
            for sequence, rows in zip(batch.sequences, batch.rows, strict=True)
        ]
        ids = np.concatenate(tokens).astype(np.int32)
        want_logits = np.zeros(len(seqs), np.bool_)
        for sequence, rows, end in zip(batch.sequences, batch.rows, np.cumsum(batch.rows), strict=True):
            want_logits[end - 1] = sequence.pending == rows and not sequence.prefill_only
        begin = self._clock()
        self._running = batch
        try:
            if any(sequence.pooled is not None for sequence in batch.sequences):
                logits = self._forward_pooled(batch, seqs, ids, want_logits)
            else:
                logits = self._backend.forward(seqs, ids, want_logits)
        except InterruptedError:
            return None
        except MemoryError:
            self._free_memory()
            return None
        finally:
            self._running = None
        self._speed.record(len(seqs), len(batch.sequences), self._clock() - begin)
        return logits

    def _forward_pooled(
        self,
        batch: Batch,
        seqs: NDArray[np.int32],
        ids: NDArray[np.int32],
        want_logits: NDArray[np.bool_],
    ) -> NDArray[np.float32]:
        """A forward whose hidden states go to the texts that want a vector. Returns the others' logits."""
        states = self._backend.hidden_states
        assert states is not None  # noqa: S101 - `_check` refuses such a text
        pooled = [sequence.pooled for sequence in batch.sequences]
        want_hidden = np.repeat([text is not None for text in pooled], batch.rows)
        logits, hidden = states.forward_hidden(seqs, ids, want_logits, want_hidden)
        done = 0
        for text, rows in zip(pooled, batch.rows, strict=True):
            if text is not None:
                text.add(hidden[done : done + rows])
                done += rows
        return logits

    def _free_memory(self) -> None:
        """Make room for the step that found the page pool full; the next step tries again."""
        if self._cache.evict_one():
            return
        first, victim = self._scheduler.requests[0], self._scheduler.victim(self._ready)
        if victim is None or victim is first:
            self._fail(
                first,
                RequestError(
                    f"The KV cache of {self._backend.kv_tokens} tokens is too small for this request.",
                    action="Load the model with a smaller context, or free some memory.",
                ),
            )
            return
        # It leaves its KV to the cache, which gives up as much of it as is needed, from its end; when there
        # is room again, the request continues what is left.
        self._counts.preemptions += 1
        self._residency.keep(victim)

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
        self._counts.generated_tokens += 1
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
        self._end(sequence, self._delta(sequence, text, finish))

    def _end(self, sequence: Sequence, event: Event) -> None:
        """End the request and leave its KV to the next one that begins alike."""
        self._residency.keep(sequence)
        self._scheduler.remove(sequence)
        sequence.emit(event)

    def _fail(self, sequence: Sequence, error: HearthError) -> None:
        self._residency.free(sequence)
        self._scheduler.remove(sequence)
        sequence.emit(error)

    def _snapshot(self) -> EngineMetrics:
        requests, cached = self._scheduler.requests, self._cache.counts
        waiting = Counter(request.priority.name.lower() for request in requests if request.kv is None)
        return EngineMetrics(
            running=sum(request.kv is not None for request in requests),
            waiting={priority.name.lower(): waiting[priority.name.lower()] for priority in Priority},
            kv_tokens=self._backend.kv_tokens,
            kv_free_tokens=self._backend.free_tokens,
            cache_entries=len(self._cache),
            lookups=cached.lookups,
            hits=cached.hits,
            memory_tokens=cached.memory_tokens,
            disk_tokens=cached.disk_tokens,
            prefilled_tokens=self._counts.prefilled_tokens,
            generated_tokens=self._counts.generated_tokens,
            evictions=cached.evictions,
            preemptions=self._counts.preemptions,
            refused=self._counts.refused,
            expired=self._counts.expired,
        )
