"""Many clients at once, many of which go away, and a daemon that is killed: python -m bench.soak

First every question of a limited pool is put to a daemon in which each request starts from nothing. Then
clients put them to a real daemon in a random order, at once; a part of the clients goes away at a random
piece or time, and the daemon is killed (kill -9) at random times in the first half. Every answer must be the
cold one, every answer that was cut short its beginning. In the end nothing may run, every KV page must have
been given back, and memory, open files and threads are told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import machine
from bench.soak.run import SHARES, Outcome, Settings, soak
from engine.client import models


def summary(outcome: Outcome) -> dict[str, Any]:
    """What is recorded; plain values."""
    growths = [life.later_growth() for life in outcome.lives]
    return {
        "faults": outcome.faults,
        "asked": sum(outcome.asked.values()),
        "whole": sum(outcome.whole.values()),
        "cut_short": sum(outcome.cut.values()),
        "lost_to_kills": sum(outcome.lost.values()),
        "wrong": sum(outcome.wrong.values()),
        "refused_and_asked_again": outcome.refused,
        "kills": outcome.kills,
        "harms_to_the_disk_cache": outcome.harms,
        "questions": outcome.questions,
        "cold_seconds": round(outcome.cold_seconds, 1),
        "seconds": round(outcome.seconds, 1),
        "lives": [
            {
                "requests": life.samples[-1].asked - life.samples[0].asked,
                "memory_mib_first": round(life.samples[0].memory_mib, 1),
                "memory_mib_last": round(life.samples[-1].memory_mib, 1),
                "memory_mib_most": round(max(sample.memory_mib for sample in life.samples), 1),
                "growth_after_a_third_mib": round(growth, 2),
                "mib_per_1000_requests": round(slope, 2),
            }
            for life, (growth, slope) in zip(outcome.lives, growths, strict=True)
        ],
        "open_files_before_and_after": outcome.files,
        "threads_before_and_after": outcome.threads,
        "cache": outcome.cache,
    }


def table(outcome: Outcome) -> str:
    """For people."""
    lines = [f"{'':12} {'asked':>6} {'whole':>6} {'cut':>6} {'lost':>6} {'wrong':>6}"]
    for kind in [kind for kind in SHARES if outcome.asked[kind]]:
        counts = (outcome.asked, outcome.whole, outcome.cut, outcome.lost, outcome.wrong)
        lines.append(f"{kind:12} " + " ".join(f"{count[kind]:6}" for count in counts))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m", help="a name of the catalogue, or a GGUF file")
    parser.add_argument("--other", default="", help="a second model, asked now and then")
    for name in ("requests", "clients", "kills", "seed", "threads"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Settings(Path()), name))
    parser.add_argument("--context", type=int, default=Settings(Path()).context_tokens, help="tokens")
    parser.add_argument("--spoil", action="store_true", help="spoil the disk cache meanwhile")
    parser.add_argument("--json", type=Path, help="file to record the result in")
    args = parser.parse_args()
    settings = Settings(
        model=models.resolve(args.model),
        other=models.resolve(args.other) if args.other else None,
        requests=args.requests,
        clients=args.clients,
        kills=args.kills,
        seed=args.seed,
        context_tokens=args.context,
        threads=args.threads,
        spoil=args.spoil,
    )
    where = machine.describe()
    outcome = asyncio.run(soak(settings))
    result = summary(outcome)
    print(table(outcome))
    print(json.dumps(result, indent=1))
    if args.json:
        told = asdict(settings) | {"model": settings.model.name, "other": args.other}
        record = {"benchmark": "soak", "machine": where, "settings": told, "result": result}
        args.json.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
