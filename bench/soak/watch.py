"""What the operating system, and the daemon itself, tell of its memory, files, threads and pages."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench import machine
from bench.own_home import daemon_pid
from engine.client.http import exchange
from engine.service.places import Places
from engine.service.protocol import STATE

SAMPLE_SECONDS = 0.5
QUIET_SECONDS = 60.0
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """asked: requests that had begun, of all lives."""

    asked: int
    memory_mib: float
    files: int
    threads: int


@dataclass(slots=True)
class Life:
    """One daemon process, from the first sample to the last."""

    pid: int
    samples: list[Sample] = field(default_factory=list)

    def later_growth(self) -> tuple[float, float]:
        """Resident MiB at the end over those a third of the life in, and MiB per 1,000 requests since then.

        The first third is the warm-up: pages of the KV pool are touched for the first time.
        """
        if len(self.samples) < 6:
            return 0.0, 0.0
        later = self.samples[len(self.samples) // 3 :]
        asked = np.array([sample.asked for sample in later], float)
        memory = np.array([sample.memory_mib for sample in later])
        edge = max(1, len(later) // 5)
        growth = float(np.median(memory[-edge:]) - np.median(memory[:edge]))
        slope = float(np.polyfit(asked, memory, 1)[0]) * 1000 if np.ptp(asked) > 0 else 0.0
        return growth, slope


def look(pid: int, asked: int) -> Sample | None:
    """None when the process has gone."""
    folder = Path("/proc") / str(pid)
    told = machine.fields(folder / "status")
    try:
        files = len(list((folder / "fd").iterdir()))
    except OSError:
        return None
    if "VmRSS" not in told:
        return None
    memory = int(told["VmRSS"].split()[0]) / 1024
    return Sample(asked, memory, files, int(told["Threads"]))


async def watch(places: Places, lives: list[Life], asked: Callable[[], int]) -> None:
    """Sample until cancelled."""
    while True:
        pid = daemon_pid(places)
        sample = look(pid, asked()) if pid is not None else None
        if pid is not None and sample is not None:
            if not lives or lives[-1].pid != pid:
                lives.append(Life(pid))
            lives[-1].samples.append(sample)
        await asyncio.sleep(SAMPLE_SECONDS)


async def read_state(places: Places) -> dict[str, Any]:
    """What `hearth status` shows."""
    async with exchange(places.socket, "GET", STATE) as response:
        state: dict[str, Any] = json.loads(await response.body())
        return state


async def quiet_state(places: Places) -> dict[str, Any]:
    """The daemon's state once nothing runs or waits any more. Raises TimeoutError when something does."""
    until = time.monotonic() + QUIET_SECONDS
    while True:
        state = await read_state(places)
        requests, cache = state["requests"], state["cache"] or {"running": 0, "waiting": {}}
        left = requests["running"] + requests["waiting"] + cache["running"] + sum(cache["waiting"].values())
        if left == 0:
            return state
        if time.monotonic() > until:
            raise TimeoutError(f"still at work: {requests}, {cache}")
        await asyncio.sleep(0.1)


async def streams_running(places: Places) -> float:
    """What Prometheus would read of running generations."""
    async with exchange(places.socket, "GET", "/metrics") as response:
        lines = (await response.body()).decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("hearth_streams_running"))
