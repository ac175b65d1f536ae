"""What the service costs over the engine itself: python -m bench.service_overhead [--json FILE]

A daemon runs in a process of its own, with an engine that answers at once and computes nothing, so that
all time is the service's: client, socket, HTTP, JSON and the host of models. Reported, as medians: a request
of one piece from its start to its end, and what each further piece of a long one takes; the same without the
service in between; and the processor time of the client's process, which is the editor's server.

Budget: 1 ms for each request, and 3 % of a token's time, which is 0.63 ms where a token takes 21 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from bench import machine
from bench.own_home import own_home
from engine.client.link import DaemonLink
from engine.client.remote import RemoteEngine
from engine.generation.metrics import EngineMetrics
from engine.types import EngineStatus, FinishReason, InfillRequest, TextDelta

PIECES = 500
REQUESTS = 300
LONG_REQUESTS = 20
WARM_UPS = 20
PREFIX = "def read_rows(path: Path) -> list[dict[str, str]]:\n    return [row for row in path]\n" * 50


class InstantEngine:
    """Says `max_tokens` pieces."""

    async def infill(self, request: InfillRequest) -> AsyncGenerator[TextDelta, None]:
        for _ in range(request.max_tokens - 1):
            yield TextDelta("text", logprob=-0.25)
            await asyncio.sleep(0)  # as an engine thread's pieces come: one at a time
        yield TextDelta("text", finish=FinishReason.LENGTH)

    async def status(self) -> EngineStatus:
        return EngineStatus("ready", "instant")

    def metrics(self) -> EngineMetrics:
        return EngineMetrics()

    async def wait_loaded(self) -> None:
        pass

    async def close(self) -> None:
        pass


def serve() -> int:
    """The daemon's process."""
    from engine.service import models
    from engine.service.__main__ import main

    async def open_model(*_: object) -> InstantEngine:
        return InstantEngine()

    models.model_opener = lambda *_: open_model  # type: ignore[assignment,return-value]
    return main(sys.argv[2:])


@asynccontextmanager
async def remote() -> AsyncIterator[RemoteEngine]:
    """A client of that daemon, in a home of its own."""
    async with own_home({}):
        command = (sys.executable, "-m", "bench.service_overhead", "--serve")
        engine = RemoteEngine(DaemonLink(("--model", "instant"), command=command), "instant")
        await engine.load()
        yield engine


async def timed(
    ask: Callable[[InfillRequest], AsyncGenerator[TextDelta, None]], pieces: int
) -> tuple[float, float]:
    """Seconds of the clock and of this process' processor time for one request."""
    clock, processor = time.perf_counter(), time.process_time()
    async with aclosing(ask(InfillRequest(PREFIX, PREFIX, max_tokens=pieces))) as stream:
        received = [piece async for piece in stream]
    assert len(received) == pieces
    return time.perf_counter() - clock, time.process_time() - processor


async def costs(ask: Callable[[InfillRequest], AsyncGenerator[TextDelta, None]]) -> dict[str, float]:
    """Milliseconds for a request, microseconds for a piece."""
    for _ in range(WARM_UPS):
        await timed(ask, 1)
    short = [await timed(ask, 1) for _ in range(REQUESTS)]
    long = [await timed(ask, PIECES) for _ in range(LONG_REQUESTS)]
    request, request_cpu = (statistics.median(column) for column in zip(*short, strict=True))
    whole, whole_cpu = (statistics.median(column) for column in zip(*long, strict=True))
    return {
        "request_ms": round(1e3 * request, 3),
        "request_client_cpu_ms": round(1e3 * request_cpu, 3),
        "piece_us": round(1e6 * (whole - request) / (PIECES - 1), 1),
        "piece_client_cpu_us": round(1e6 * (whole_cpu - request_cpu) / (PIECES - 1), 1),
    }


async def measure() -> dict[str, Any]:
    direct = await costs(InstantEngine().infill)
    async with remote() as engine:
        served = await costs(engine.infill)
    return {"direct": direct, "served": served}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="file to record the result in")
    args = parser.parse_args()
    where = machine.describe()
    result = asyncio.run(measure())
    print(json.dumps(result, indent=1))
    if args.json:
        record = {"benchmark": "service_overhead", "machine": where, "result": result}
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(serve() if sys.argv[1:2] == ["--serve"] else main())
