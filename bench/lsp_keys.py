"""Latency of completions while somebody types: python -m bench.lsp_keys [--model NAME]

Replays keys into the real server (`hearth lsp`, over stdio) as an editor would: every key is a didChange, and
when the next key is not there after the debounce, a completion is asked for. Three functions are typed, in
Python, TypeScript and Rust, with typing errors and corrections; delays between keys are a fixed list (40 to
250 ms, and pauses of a second at line ends). A suggestion that is on screen during a pause and is what comes
next gets accepted.

Reported: time from request to answer for answers with an item (cached ones apart), what else was answered,
how long a didChange takes to be handled while a completion runs (the round trip of a tiny request sent right
behind it, so an upper bound), and the cold start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import machine
from engine.client import service
from lsp_server.demo.client import StdioClient, connect

DEBOUNCE_S = 0.05
PAUSE_S = 1.0
BACKSPACE = "\b"

# What stands in the file, with the place where the typing happens, and what is typed: \b takes a key back.
STREAMS = {
    "python": (
        "import csv\nfrom pathlib import Path\n\n\ndef read_rows(path: Path) -> list[dict[str, str]]:\n"
        '    """Every row of a CSV file."""\n    with path.open(newline="") as file:\n'
        "        return list(csv.DictReader(file))\n\n\n¦\n\n\n"
        'if __name__ == "__main__":\n    print(total_by_name(read_rows(Path("sales.csv"))))\n',
        "def total_by_name(rows: list[dict[str, str]]) -> dict[str, float]:\n"
        '    totals: dict[str, fla\b\boat] = {}\n    for row in rows:\n        name = row["name"]\n'
        '        totals[name] = totals.get(name, 0.0) + float(row["amuo\b\bount"])\n    return totals',
    ),
    "typescript": (
        "export interface Item {\n  name: string;\n  price: number;\n  count: number;\n}\n\n"
        "export function subtotal(item: Item): number {\n  return item.price * item.count;\n}\n\n¦\n\n"
        "export function print(items: Item[]): void {\n  console.log(total(items).toFixed(2));\n}\n",
        "export function total(items: Item[]): number {\n  let sum = 0;\n"
        "  for (const itme\b\bem of items) {\n"
        "    sum += subtotal(item);\n  }\n  return sum;\n}",
    ),
    "rust": (
        "use std::collections::HashMap;\n\n/// Words of a text, in lower case.\n"
        "pub fn words(text: &str) -> Vec<String> {\n"
        "    text.split_whitespace().map(|w| w.to_lowercase()).collect()\n}\n\n¦\n\nfn main() {\n"
        '    println!("{:?}", longest(&words("a bb ccc")));\n}\n',
        "pub fn longest(words: &[String]) -> Option<&String> {\n"
        "    let mut best: Option<&Srt\b\btring> = None;\n"
        "    for word in words {\n"
        "        if best.map_or(true, |b| word.len() > b.len()) {\n            best = Some(word);\n"
        "        }\n    }\n    best\n}",
    ),
}
SUFFIXES = {"python": ".py", "typescript": ".ts", "rust": ".rs"}


@dataclass
class Counts:
    """What happened, over all streams; times in seconds."""

    keys: int = 0
    accepted: int = 0
    accepted_characters: int = 0
    requests: int = 0
    superseded: int = 0
    empty: int = 0
    overtaken: int = 0  # answered with an item after the next key was sent: an editor drops it
    misplaced: list[str] = field(default_factory=list)  # items that do not fit the document: must stay empty
    fresh: list[float] = field(default_factory=list)
    cached: list[float] = field(default_factory=list)
    change_while_running: list[float] = field(default_factory=list)
    prompt_tokens: list[int] = field(default_factory=list)
    cached_tokens: list[int] = field(default_factory=list)


class Typist:
    """One document, and the keys that go into it."""

    def __init__(
        self, client: StdioClient, language: str, folder: Path, counts: Counts, delays: random.Random
    ) -> None:
        text, self.typed = STREAMS[language]
        self.before, self.after = text.split("¦")
        self.client, self.counts, self.delays = client, counts, delays
        self.language = language
        self.uri = (folder / f"typed{SUFFIXES[language]}").as_uri()
        self.version = 1
        self.running: asyncio.Task[None] | None = None
        self.shown = ""

    @property
    def position(self) -> dict[str, int]:
        line = self.before.rpartition("\n")[2]
        return {"line": self.before.count("\n"), "character": len(line)}  # the streams are ASCII

    async def run(self) -> None:
        document = {
            "uri": self.uri,
            "languageId": self.language,
            "version": 1,
            "text": self.before + self.after,
        }
        await self.client.notify("textDocument/didOpen", {"textDocument": document})
        await self.client.notify(
            "textDocument/didFocus", {"textDocument": {"uri": self.uri}, "position": self.position}
        )
        await asyncio.sleep(PAUSE_S)
        left = self.typed
        while left:
            key, left = left[0], left[1:]
            await self._key(key)
            at_line_end = left.startswith("\n") or key == "\n"
            delay = PAUSE_S if at_line_end else self.delays.uniform(0.04, 0.25)
            ask = delay > DEBOUNCE_S
            await asyncio.sleep(DEBOUNCE_S if ask else delay)
            if ask:
                self._ask()
                await asyncio.sleep(delay - DEBOUNCE_S)
            if at_line_end and self.shown and left.startswith(self.shown) and BACKSPACE not in self.shown:
                accepted, left = self.shown, left[len(self.shown) :]
                self.counts.accepted += 1
                self.counts.accepted_characters += len(accepted)
                await self._change(accepted, 0)
        if self.running is not None:
            await self.running

    async def _key(self, key: str) -> None:
        self.counts.keys += 1
        await self._change("", 1) if key == BACKSPACE else await self._change(key, 0)

    async def _change(self, text: str, taken: int) -> None:
        busy = self.running is not None and not self.running.done()
        end = self.position
        self.before = self.before[: len(self.before) - taken]
        start = self.position
        self.before += text
        self.version += 1
        self.shown = ""
        change = {"range": {"start": start, "end": end}, "text": text}
        document = {"uri": self.uri, "version": self.version}
        sent = time.perf_counter()
        await self.client.notify(
            "textDocument/didChange", {"textDocument": document, "contentChanges": [change]}
        )
        if busy:
            await self.client.request(
                "workspace/executeCommand", {"command": "hearth.status", "arguments": []}
            )
            self.counts.change_while_running.append(time.perf_counter() - sent)

    def _ask(self) -> None:
        self.running = asyncio.create_task(self._complete(self.version, self.position))

    async def _complete(self, version: int, position: dict[str, int]) -> None:
        self.counts.requests += 1
        sent = time.perf_counter()
        params = {"textDocument": {"uri": self.uri}, "position": position, "context": {"triggerKind": 2}}
        result = await self.client.request("textDocument/inlineCompletion", params)
        took = time.perf_counter() - sent
        items = result.get("items", []) if isinstance(result, dict) else result
        if items is None:
            self.counts.superseded += 1
        elif not items:
            self.counts.empty += 1
        elif version != self.version:
            self.counts.overtaken += 1
        else:
            await self._item(items[0], took)

    async def _item(self, item: dict[str, Any], took: float) -> None:
        start, end = item["range"]["start"], item["range"]["end"]
        inside = start["line"] == end["line"] == self.position["line"]
        if not inside or not start["character"] <= self.position["character"] <= end["character"]:
            self.counts.misplaced.append(f"{item['range']} at {self.position}")
            return
        self.shown = item["insertText"] if start == self.position else ""
        told = await self.client.request(
            "workspace/executeCommand", {"command": "hearth.explain", "arguments": [self.uri]}
        )
        trace = (told.get("data") or {}).get("trace", {})
        (self.counts.cached if trace.get("cache_hit") else self.counts.fresh).append(took)
        for sample in trace.get("samples", []):
            timing = sample.get("timing") or {}
            if "prompt_tokens" in timing:
                self.counts.prompt_tokens.append(timing["prompt_tokens"])
                self.counts.cached_tokens.append(timing["cached_tokens"])


async def measure(model: str) -> dict[str, Any]:
    """Start the server, type everything, and sum it up."""
    counts = Counts()
    delays = random.Random(0)
    ready = asyncio.Event()

    def notice(method: str, params: Any) -> None:
        if method == "didChangeStatus" and params.get("kind") == "Normal" and not params.get("busy"):
            ready.set()

    # The engine starts cold, and what this run did to it is not left to the next.
    await asyncio.to_thread(service.stop)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        async with connect((sys.executable, "-m", "lsp_server", "lsp"), notice) as client:
            options = {"model": model} if model else {}
            await client.request(
                "initialize",
                {
                    "processId": None,
                    "rootUri": Path(folder).as_uri(),
                    "capabilities": {},
                    "initializationOptions": options,
                },
            )
            await client.notify("initialized", {})
            await ready.wait()
            loaded = time.perf_counter() - started
            cold = await _first_item(client, folder)
            for language in STREAMS:
                await Typist(client, language, Path(folder), counts, delays).run()
    await asyncio.to_thread(service.stop)
    return summary(counts) | {"ready_s": loaded, "first_item_after_ready_s": cold}


async def _first_item(client: StdioClient, folder: str) -> float:
    """Seconds from the first question to the first item, nothing warm."""
    uri = (Path(folder) / "cold.py").as_uri()
    text = "def add(a: int, b: int) -> int:\n    return \n\n\nprint(add(1, 2))\n"
    await client.notify(
        "textDocument/didOpen",
        {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": text}},
    )
    sent = time.perf_counter()
    params = {
        "textDocument": {"uri": uri},
        "position": {"line": 1, "character": 11},
        "context": {"triggerKind": 1},
    }
    result = await client.request("textDocument/inlineCompletion", params)
    items = result["items"] if isinstance(result, dict) else result
    if not items:
        raise SystemExit("The first question got no suggestion: the model or the server does not work.")
    return time.perf_counter() - sent


def percentile(values: list[float], share: float) -> float | None:
    """In milliseconds; None of no values."""
    if not values:
        return None
    ordered = sorted(values)
    return round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)


def summary(counts: Counts) -> dict[str, Any]:
    items = counts.fresh + counts.cached
    return {
        "keys": counts.keys,
        "requests": counts.requests,
        "superseded": counts.superseded,
        "empty": counts.empty,
        "overtaken": counts.overtaken,
        "items": len(items),
        "items_from_cache": len(counts.cached),
        "misplaced": counts.misplaced,
        "accepted": counts.accepted,
        "accepted_characters": counts.accepted_characters,
        "item_ms": {"p50": percentile(items, 0.5), "p95": percentile(items, 0.95)},
        "fresh_item_ms": {"p50": percentile(counts.fresh, 0.5), "p95": percentile(counts.fresh, 0.95)},
        "change_while_running_ms": {
            "n": len(counts.change_while_running),
            "p50": percentile(counts.change_while_running, 0.5),
            "p95": percentile(counts.change_while_running, 0.95),
            "max": percentile(counts.change_while_running, 1.0),
        },
        "prompt_tokens_mean": round(sum(counts.prompt_tokens) / max(1, len(counts.prompt_tokens))),
        "cached_share": round(sum(counts.cached_tokens) / max(1, sum(counts.prompt_tokens)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="", help="a name of the catalogue; default: the default model")
    parser.add_argument("--json", type=Path, help="file to record the result in")
    args = parser.parse_args()
    where = machine.describe()
    result = asyncio.run(measure(args.model))
    print(json.dumps(result, indent=1))
    if args.json:
        record = {
            "benchmark": "lsp_keys",
            "machine": where,
            "settings": {"model": args.model or "default"},
            "result": result,
        }
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
