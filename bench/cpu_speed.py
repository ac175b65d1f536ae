"""Speed and memory of our engine beside llama.cpp, in one run: python -m bench.cpu_speed [MODEL...]

For each model both engines are loaded, each in a process of its own, and measured in turn (A B A B ...), so
that whatever else the machine does meets both. A round is a prefill of the prompt into an empty cache, then
greedy decoding after it. Prints a table; --json also records it with the machine and the date.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench import machine, peer

ENGINES = ("hearth", "llama.cpp")


class Hearth:
    """Our engine, through the same two calls as the peer."""

    def __init__(self, model: Path, *, context_tokens: int, threads: int) -> None:
        from engine import _native

        loaded = _native.Model(_native.GgufFile(str(model)))
        self._engine = _native.Engine(loaded, kv_tokens=context_tokens, threads=threads)
        self._sequence = self._engine.new_sequence()
        self.n_vocab = loaded.n_vocab
        self.kernels = loaded.isa

    def clear(self) -> None:
        self._engine.truncate(self._sequence, 0)

    def forward(self, tokens: np.ndarray) -> np.ndarray:
        want = np.zeros(len(tokens), np.bool_)
        want[-1] = True
        sequences = np.full(len(tokens), self._sequence, np.int32)
        return self._engine.forward(sequences, np.ascontiguousarray(tokens, np.int32), want)[0]


def work(engine: str, model: Path, threads: int, prompt: int, decode: int) -> None:
    """A measuring process: a line of JSON for the load, then one for each line that comes in."""
    started = time.perf_counter()
    made = (Hearth if engine == "hearth" else peer.LlamaCpp)(
        model, context_tokens=prompt + decode + 64, threads=threads
    )
    # Any tokens take the same time; these are the same for both engines.
    tokens = np.random.default_rng(0).integers(0, made.n_vocab, prompt, np.int32)
    print(json.dumps({"load_s": time.perf_counter() - started, "kernels": made.kernels}), flush=True)
    for _ in sys.stdin:
        made.clear()
        started = time.perf_counter()
        logits = made.forward(tokens)
        prefilled = time.perf_counter()
        for _ in range(decode):
            logits = made.forward(np.array([np.argmax(logits)], np.int32))
        ended = time.perf_counter()
        result = {"prefill_tps": prompt / (prefilled - started), "decode_tps": decode / (ended - prefilled)}
        print(json.dumps(result | _memory()), flush=True)


def _memory() -> dict[str, float]:
    """Resident memory of this process now and at its most, in MiB; mapped pages of the model file count."""
    fields = machine.fields(Path("/proc/self/status"))
    return {
        "rss_mib": int(fields["VmRSS"].split()[0]) / 1024,
        "rss_peak_mib": int(fields["VmHWM"].split()[0]) / 1024,
    }


class Worker:
    """A measuring process, started and loaded."""

    def __init__(self, engine: str, model: Path, args: argparse.Namespace) -> None:
        command = [sys.executable, "-m", "bench.cpu_speed", "--worker", engine, str(model)]
        command += [
            "--threads",
            str(args.threads),
            "--prompt",
            str(args.prompt),
            "--decode",
            str(args.decode),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.loaded = self._line()

    def measure(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._line()

    def close(self) -> None:
        self._process.communicate()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"A measuring process ended with exit code {self._process.wait()}; see above.")
        return json.loads(line)


def compare(model: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Both engines on one model: medians over the rounds, every round, and the ratios ours / theirs."""
    workers = {engine: Worker(engine, model, args) for engine in ENGINES}
    for worker in workers.values():
        worker.measure()  # the first touches pages and warms caches; not counted
    rounds: dict[str, list[dict[str, Any]]] = {engine: [] for engine in ENGINES}
    for _ in range(args.rounds):
        for engine, worker in workers.items():
            rounds[engine].append(worker.measure())
    result: dict[str, Any] = {"model": model.name}
    for engine, worker in workers.items():
        worker.close()
        medians = {key: median(one[key] for one in rounds[engine]) for key in rounds[engine][0]}
        result[engine] = worker.loaded | medians | {"rounds": rounds[engine]}
    ours, theirs = (result[engine] for engine in ENGINES)
    result["ratio"] = {
        key: ours[key] / theirs[key] for key in ("prefill_tps", "decode_tps", "rss_mib", "load_s")
    }
    return result


def show(results: list[dict[str, Any]], args: argparse.Namespace) -> None:
    """The table."""
    print(f"{args.threads} threads, {args.rounds} rounds: prefill {args.prompt} tokens, decode {args.decode}")
    row = "{:<42} {:<10} {:>12} {:>11} {:>9} {:>9} {:>7}"
    print(row.format("model", "engine", "prefill t/s", "decode t/s", "RSS MiB", "peak MiB", "load s"))
    for result in results:
        for engine in ENGINES:
            one = result[engine]
            numbers = [f"{one[key]:.1f}" for key in ("prefill_tps", "decode_tps")]
            numbers += [f"{one[key]:.0f}" for key in ("rss_mib", "rss_peak_mib")]
            print(row.format(result["model"], engine, *numbers, f"{one['load_s']:.2f}"))
        ratio = result["ratio"]
        ratios = (f"{ratio['prefill_tps']:.2f}x", f"{ratio['decode_tps']:.2f}x", f"{ratio['rss_mib']:.2f}x")
        print(row.format("", "ratio", *ratios, "", f"{ratio['load_s']:.2f}x"))


def find_models(names: list[str]) -> list[Path]:
    """Model files by path or by catalogue name; every model that is on this machine when none is named."""
    from engine.client import models

    if names:
        return [models.resolve(name) for name in names]
    return [Path(row.path) for row in models.list_models() if row.state == "ready"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models", nargs="*", help="GGUF files or names of the catalogue; default: all that are here"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512, help="tokens to prefill, at most 512")
    parser.add_argument("--decode", type=int, default=64, help="tokens to decode after the prompt")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file to record the result in")
    parser.add_argument("--worker", choices=ENGINES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker, Path(args.models[0]), args.threads, args.prompt, args.decode)
        return
    peer.fetch()  # now, so that no measuring process does
    where = machine.describe()
    results = [compare(model, args) for model in find_models(args.models)]
    show(results, args)
    if args.json:
        settings = {key: getattr(args, key) for key in ("threads", "prompt", "decode", "rounds")}
        record = {"benchmark": "cpu_speed", "machine": where, "settings": settings, "results": results}
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
