"""Time to the first token of prompts that share a long prefix: cold, warm, and after a restart.

    python -m bench.prefix_cache [--model NAME]

Each round has a prefix of its own, cut from this repository's source, and three requests that differ in their
last tokens: the first finds nothing, the second finds the prefix in memory. Then the engine is closed, and
another process loads the model anew: the third request finds the prefix on the disk. All three are timed from
the submission to the first token, through the engine's thread, with the model loaded and its hash known.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench import machine

ROOT = Path(__file__).parents[1]
TAIL_TOKENS = 32
CONTEXT_TOKENS = 8192
PATIENCE_SECONDS = 600.0


class FirstToken:
    """Draws the most likely token; one is enough."""

    def draw(self, logits: np.ndarray, _history: list[int]):
        from engine.generation.sequence import Drawn

        return Drawn(int(np.argmax(logits)), "", 0.0)

    def flush(self) -> str:
        return ""


def source_tokens(tokenizer: Any) -> list[int]:
    """This repository's Python and C++, as the model reads it."""
    files = sorted(
        [*ROOT.glob("engine/**/*.py"), *ROOT.glob("lsp_server/**/*.py"), *ROOT.glob("native/**/*.cpp")]
    )
    return tokenizer.encode("\n".join(path.read_text(encoding="utf-8") for path in files))


def prompts(ids: list[int], prefix: int, rounds: int) -> list[list[tuple[int, ...]]]:
    """For each round the cold, the warm and the restarted request. Raises ValueError for too little text."""
    made = []
    each = prefix + 3 * TAIL_TOKENS
    if rounds * each > len(ids):
        raise ValueError(f"{rounds} rounds of {prefix} tokens need more than the {len(ids)} tokens of source")
    for n in range(rounds):
        part = ids[n * each : (n + 1) * each]
        tails = [part[prefix + i * TAIL_TOKENS :][:TAIL_TOKENS] for i in range(3)]
        made.append([(*part[:prefix], *tail) for tail in tails])
    return made


def work(model: Path, which: list[int], prefix: int, rounds: int, threads: int) -> None:
    """A process with the model: the requests of that kind in every round; prints a line of JSON."""
    from engine.backends.native import NativeBackend, open_gguf
    from engine.generation.disk_tier import open_disk_tier
    from engine.generation.sequence import Sequence
    from engine.generation.thread import EngineThread, LoadedModel
    from engine.tokenizer import Tokenizer
    from engine.types import Priority

    gguf = open_gguf(model)
    backend = NativeBackend(gguf, threads=threads, context_tokens=CONTEXT_TOKENS)
    disk = open_disk_tier(model, backend.kv_pages)
    assert disk is not None
    while disk.metrics().state == "opening":
        time.sleep(0.05)
    thread = EngineThread(lambda: LoadedModel(backend, prompting=None, disk=disk))
    thread.loaded.wait()
    timings: list[dict[str, float]] = []
    for of_round in prompts(source_tokens(Tokenizer.from_gguf(gguf)), prefix, rounds):
        times = {}
        for kind in which:
            events: queue.SimpleQueue[Any] = queue.SimpleQueue()
            sequence = Sequence(of_round[kind], 1, Priority.CHAT, "", events.put, FirstToken())
            begin = time.perf_counter()
            thread.submit(sequence)
            event = events.get(timeout=PATIENCE_SECONDS)
            if isinstance(event, Exception):
                raise event
            times[KINDS[kind]] = time.perf_counter() - begin
            times[f"{KINDS[kind]}_cached"] = event.timing.cached_tokens
        timings.append(times)
    thread.close()
    print(json.dumps(timings))


KINDS = ("cold", "warm", "restart")


def process(which: list[int], args: argparse.Namespace, model: Path, home: Path) -> list[dict[str, float]]:
    """The timings of a process of its own, round by round."""
    command = [sys.executable, "-m", "bench.prefix_cache", "--worker", *[str(kind) for kind in which]]
    for name in ("prefix", "rounds", "threads"):
        command += [f"--{name}", str(getattr(args, name))]
    environment = os.environ | {"HEARTH_HOME": str(home)}
    command += ["--model", str(model)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def summary(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Medians in seconds, and the shares of the cold time."""
    result = {kind: median(one[kind] for one in rounds) for kind in KINDS}
    return result | {f"{kind}_share": result[kind] / result["cold"] for kind in KINDS[1:]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", default="qwen2.5-coder-0.5b", help="a GGUF file or a name of the catalogue"
    )
    parser.add_argument("--prefix", type=int, default=4000, help="tokens that the requests of a round share")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="file to record the result in")
    parser.add_argument("--worker", type=int, nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(Path(args.model), args.worker, args.prefix, args.rounds, args.threads)
        return
    from engine.client import models

    model, where = models.resolve(args.model), machine.describe()
    with tempfile.TemporaryDirectory() as home:
        before = process([0, 1], args, model, Path(home))
        after = process([2], args, model, Path(home))
    rounds = [first | second for first, second in zip(before, after, strict=True)]
    result = {"model": model.name, **summary(rounds), "rounds": rounds}
    print(json.dumps(result, indent=1))
    if args.json:
        settings = {key: getattr(args, key) for key in ("prefix", "rounds", "threads")}
        record = {"benchmark": "prefix_cache", "machine": where, "settings": settings, "result": result}
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
