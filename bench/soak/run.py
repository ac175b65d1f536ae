"""The soak itself: first every question to a cold daemon, then all of it at once to a real one."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.own_home import daemon_pid, own_home
from bench.soak.answers import Answer
from bench.soak.asking import REPLAY, Client, Cut, Fault, Question
from bench.soak.questions import Known, Pool, Series, source_text
from bench.soak.trouble import Killer, spoil_the_disk
from bench.soak.watch import Life, look, quiet_state, streams_running, watch
from engine.client import service
from engine.client.link import DaemonLink
from engine.client.start import COMMAND
from engine.service.places import find_places

Questions = dict[str, list[Series]]
"""Series by kind."""

Job = tuple[str, list[tuple[Known, Cut | None]]]
"""A model, and what it is asked, with when the client goes away."""

COLD = (sys.executable, "-P", "-m", "bench.soak.cold")
SHARES = {
    "keys": 30,
    "chats": 25,
    "holes": 8,
    "warm": 4,
    "sampled": 8,
    "choices": 4,
    "logprobs": 4,
    "constrained": 6,
    "tools": 4,
    "replays": 2,
    "nearly full": 1,
    "too long": 1,
    "small": 4,
    "refused": 1,
}
"""How often a series of each kind is begun."""

FIRST, SECOND = "soaked", "soaked-too"
OTHER_SHARE = 0.03
"""So many series are asked of the second model, where there is one."""

MODEL_IN_MEMORY = frozenset({"/infill", "/tokenize", "/detokenize", "/v1/models"})
"""Routes that answer by the model that happens to be in memory."""

PROGRAMS = 4
"""The clients belong to so many programs, each of which finds and starts the daemon for itself."""

ATTEMPTS = 5
LAST_LIFE = "the daemon runs"
PAGES_BACK, PAGES_LOST = "all KV pages were given back", "were not given back"


@dataclass(frozen=True, slots=True)
class Settings:
    """model: a GGUF file. cancelled: the share of requests whose client goes away.

    kills: in the first half of the requests.
    other: a second file, asked now and then, so that the daemon has to exchange the models; None for none.
    spoil: whether the disk cache is spoilt meanwhile.
    """

    model: Path
    other: Path | None = None
    requests: int = 2000
    clients: int = 32
    cancelled: float = 0.3
    kills: int = 2
    seed: int = 0
    context_tokens: int = 1024
    threads: int = 0
    spoil: bool = False

    @property
    def named(self) -> dict[str, Path]:
        """The models by the names under which they are asked."""
        return {FIRST: self.model} | ({SECOND: self.other} if self.other is not None else {})


@dataclass(slots=True)
class Outcome:
    """What happened; `faults` has a line for each thing that must not."""

    asked: Counter[str] = field(default_factory=Counter)
    whole: Counter[str] = field(default_factory=Counter)
    cut: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    refused: int = 0
    kills: int = 0
    harms: list[str] = field(default_factory=list)
    questions: int = 0
    cold_seconds: float = 0.0
    seconds: float = 0.0
    lives: list[Life] = field(default_factory=list)
    files: tuple[int, int] = (0, 0)
    threads: tuple[int, int] = (0, 0)
    cache: dict[str, Any] = field(default_factory=dict)


def _link(settings: Settings, model: str = FIRST, command: Sequence[str] = COMMAND) -> DaemonLink:
    threads = ("--threads", str(settings.threads)) if settings.threads else ()
    return DaemonLink(("--model", model, *threads), command=command)


async def cold_answers(settings: Settings, rng: random.Random) -> dict[str, Questions]:
    """For each model every question, with its answer from an engine to which each request is the first."""
    pools = {}
    for name in settings.named:
        pools[name] = await _cold_answers(settings, name, rng)
    if settings.other is not None:
        for pool in pools.values():
            for kind, found in pool.items():
                pool[kind] = [series for series in found if series[0].question.route not in MODEL_IN_MEMORY]
    return pools


async def _cold_answers(settings: Settings, model: str, rng: random.Random) -> Questions:
    async with own_home(settings.named, settings.context_tokens):
        client = Client(_link(settings, model, COLD), model)
        try:
            await client.engine.load()

            async def ask(question: Question) -> Answer:
                answer, lost = await client.ask(question)
                if lost or not answer.end:
                    raise Fault(f"no cold answer to {question}: {answer}, {lost}")
                return answer

            text = source_text()
            status = await client.engine.status()
            tokens = await client.tokenize(text[: 8 * status.context_tokens])
            text = text[: 8 * status.context_tokens]
            return await Pool(rng, model, status, ask, tokens, text).build()
        finally:
            await client.close()


class Soak:
    """One run. `outcome` grows meanwhile."""

    def __init__(self, settings: Settings, pools: dict[str, Questions], rng: random.Random) -> None:
        self.settings = settings
        self.outcome = Outcome(
            questions=sum(len(series) for pool in pools.values() for kind in pool.values() for series in kind)
        )
        self._rng = rng
        self._jobs = self._plan(pools)
        self._begun = 0
        self._in_flight = 0

    def _plan(self, pools: dict[str, Questions]) -> deque[Job]:
        """What the clients take from: series, with what is cancelled and when, as the seed says."""
        rng, jobs, left = self._rng, deque[Job](), self.settings.requests
        while left > 0:
            model = SECOND if SECOND in pools and rng.random() < OTHER_SHARE else FIRST
            pool = pools[model]
            kinds = [kind for kind in SHARES if pool.get(kind)]
            (kind,) = rng.choices(kinds, [SHARES[kind] / _mean_length(pool[kind]) for kind in kinds])
            series = rng.choice(pool[kind])
            first = rng.randrange(len(series)) if kind == "keys" else 0
            part = series[first:][:left]
            jobs.append((model, [(known, self._cut()) for known in part]))
            left -= len(part)
        return jobs

    def _cut(self) -> Cut | None:
        if self._rng.random() >= self.settings.cancelled:
            return None
        return Cut(self._rng.choice((1, 1, 2, 3, 5, 8, 1000)), self._rng.choice((0.02, 0.1, 0.3, 1.0, 3.0)))

    async def run(self) -> Outcome:
        settings, outcome = self.settings, self.outcome
        async with own_home(settings.named, settings.context_tokens) as folder:
            places = find_places()
            links = [_link(settings) for _ in range(PROGRAMS)]
            clients = [
                {model: Client(links[number % PROGRAMS], model) for model in settings.named}
                for number in range(settings.clients)
            ]
            first = clients[0][FIRST]
            await first.engine.load()
            before = look(daemon_pid(places) or 0, 0)
            watching = asyncio.create_task(watch(places, outcome.lives, lambda: self._begun))
            killer = Killer(places, self._rng, lambda: self._begun, lambda: self._in_flight)
            started = time.monotonic()
            try:
                async with asyncio.TaskGroup() as tasks:
                    for client in clients:
                        tasks.create_task(self._client(client, killer))
                    tasks.create_task(killer.run(settings.kills, settings.requests))
                    if settings.spoil:
                        tasks.create_task(self._spoil())
                await first.engine.load()  # the last death may have come after the last request
            finally:
                outcome.kills = killer.kills
                outcome.seconds = time.monotonic() - started
                watching.cancel()
                for one in [one for models in clients for one in models.values()]:
                    outcome.refused += one.refused
                    await one.close()
            state = await quiet_state(places)
            outcome.cache = state["cache"]
            if await streams_running(places):
                outcome.faults.append("/metrics says that streams run when none does")
            after = look(state["pid"], self._begun)
            if before is None or after is None:
                outcome.faults.append("the daemon could not be watched")
            else:
                outcome.files = (before.files, after.files)
                outcome.threads = (before.threads, after.threads)
            await asyncio.to_thread(service.stop)
            self.account((folder / "logs" / "daemon.log").read_text(encoding="utf-8"))
        return outcome

    def account(self, log: str) -> None:
        """Whether the last daemon freed every page; the killed ones could not say."""
        if PAGES_LOST in log:
            self.outcome.faults.append("KV pages leaked: " + log[log.index(PAGES_LOST) - 60 :][:100])
        if PAGES_BACK not in log.rpartition(LAST_LIFE)[2]:
            self.outcome.faults.append("the last daemon did not say that all KV pages were given back")
        for word in (" ERROR ", " CRITICAL ", "Traceback"):
            if word in log:
                self.outcome.faults.append(f"the log has{word}: {log[log.index(word) :][:2000]}")

    async def _client(self, models: dict[str, Client], killer: Killer) -> None:
        while self._jobs:
            model, asked = self._jobs.popleft()
            for known, cut in asked:
                await self._ask(models[model], killer, known, cut)

    async def _ask(self, client: Client, killer: Killer, known: Known, cut: Cut | None) -> None:
        kind, outcome = known.question.kind, self.outcome
        self._begun += 1
        outcome.asked[kind] += 1
        for _ in range(ATTEMPTS):
            began = time.monotonic()
            self._in_flight += 1
            try:
                answer, lost = await client.ask(known.question, cut)
            except (Fault, TimeoutError) as error:
                outcome.faults.append(f"{kind} {known.question.route}: {error!r}")
                return
            finally:
                self._in_flight -= 1
            # A daemon that comes between the two turns does not remember the calls of the first.
            forgotten = known.question.route == REPLAY and killer.killed_since(began)
            if not answer.agrees_with(known.cold) and not forgotten:
                outcome.wrong[kind] += 1
                outcome.faults.append(f"{kind} {known.question.route}: {answer} instead of {known.cold}")
                return
            if not lost and not answer.end and cut is None:
                outcome.faults.append(f"{kind} {known.question.route}: the answer has no end")
            if not lost:
                (outcome.whole if answer.end else outcome.cut)[kind] += 1
                return
            outcome.lost[kind] += 1
            if not killer.killed_since(began):
                outcome.faults.append(f"{kind} {known.question.route}: lost without a kill: {lost}")
        outcome.faults.append(f"{kind} {known.question.route}: not answered after {ATTEMPTS} attempts")

    async def _spoil(self) -> None:
        """At random times, all through."""
        async for harm in spoil_the_disk(find_places(), self._rng):
            self.outcome.harms.append(harm)
            more = self._begun + self._rng.uniform(0.05, 0.3) * self.settings.requests
            while self._begun < min(more, self.settings.requests):
                await asyncio.sleep(0.05)


def _mean_length(kind: list[Series]) -> float:
    return sum(len(series) for series in kind) / len(kind)


async def soak(settings: Settings) -> Outcome:
    """Cold answers, then the soak."""
    rng = random.Random(settings.seed)
    begin = time.monotonic()
    pools = await cold_answers(settings, rng)
    cold_seconds = time.monotonic() - begin
    outcome = await Soak(settings, pools, rng).run()
    outcome.cold_seconds = cold_seconds
    return outcome
