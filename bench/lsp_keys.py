"""Latency of completions while somebody types: python -m bench.lsp_keys [--model NAME]

Replays keys into the real server (`hearth lsp`, over stdio) as an editor would: every key is a didChange, and
when the next key is not there after the debounce, a completion is asked for. Three functions are typed in
short files, in Python, TypeScript and Rust, and one in the middle of a long file (see bench/key_streams.py),
with typing errors and corrections; delays between keys are a fixed list (40 to 250 ms, and pauses of a second
at line ends). A suggestion that is on screen during a pause and is what comes next gets accepted.

What is reported: bench/README.md, "How `lsp_keys` measures".
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import machine
from bench.key_counts import Change, Counts, Fresh, change_delays, summary
from bench.key_streams import BACKSPACE, Stream, streams
from engine.client import service
from lsp_server.demo.client import StdioClient, connect

DEBOUNCE_S = 0.05
PAUSE_S = 1.0


class Typist:
    """One document, and the keys that go into it."""

    def __init__(
        self, client: StdioClient, stream: Stream, folder: Path, counts: Counts, delays: random.Random
    ) -> None:
        self.before, self.after, self.typed = stream.before, stream.after, stream.typed
        self.client, self.counts, self.delays = client, counts, delays
        self.language = stream.language
        self.uri = (folder / stream.name).as_uri()
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
        self.counts.changes.append(Change(self.version, time.perf_counter_ns(), busy))
        await self.client.notify(
            "textDocument/didChange", {"textDocument": document, "contentChanges": [change]}
        )

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
            await self._item(items[0], took, version)

    async def _item(self, item: dict[str, Any], took: float, version: int) -> None:
        start, end = item["range"]["start"], item["range"]["end"]
        inside = start["line"] == end["line"] == self.position["line"]
        if not inside or not start["character"] <= self.position["character"] <= end["character"]:
            self.counts.misplaced.append(f"{item['range']} at {self.position}")
            return
        self.shown = item["insertText"] if start == self.position else ""
        told = await self.client.request(
            "workspace/executeCommand", {"command": "hearth.explain", "arguments": [self.uri]}
        )
        trace = told["data"]["trace"]
        if told["data"]["version"] != version:  # the account is already that of the next request
            self.counts.unexplained.append(took)
        elif trace["cache_hit"]:
            self.counts.cached.append(took)
        elif trace["samples"][0]["typed_along"]:
            self.counts.followed.append(took)
        else:
            self.counts.fresh.append(Fresh.of(took, trace))


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
        async with connect(
            (sys.executable, "-m", "lsp_server", "lsp", "--log-level", "debug"), notice
        ) as client:
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
            for stream in streams():
                await Typist(client, stream, Path(folder), counts, delays).run()
            told = await client.request("workspace/executeCommand", {"command": "hearth.status"})
    await asyncio.to_thread(service.stop)
    delays_s = change_delays(counts.changes, Path(told["data"]["logFile"]).read_text(encoding="utf-8"))
    return summary(counts, delays_s) | {"ready_s": loaded, "first_item_after_ready_s": cold}


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
