"""Two editors and an HTTP client on one daemon: python -m bench.shared_load [--model NAME] [--json FILE]

Two real language servers (`hearth lsp`, over stdio) type and ask for completions, each at its own pace: first
with nothing else to do for the daemon, then while a chat of 2,000 tokens streams over HTTP, then while
prompts of 2,000 tokens are prefilled one after the other. Each phase types the same lines into files that
begin differently, so none finds the KV of another. Reported: the time from request to item, the memory of all
processes, and whether the goal is met: under load, the 95th percentile is at most 1.5 times the idle one and
one step of the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from bench import machine
from bench.key_counts import percentile, spread
from bench.own_home import daemon_pid, own_home
from engine.client import models
from engine.client.http import exchange
from engine.generation.speed import Speed
from engine.service.places import find_places
from engine.service.protocol import STATE
from lsp_server.demo.client import StdioClient, connect

ROOT = Path(__file__).parents[1]
SERVER = (sys.executable, "-m", "lsp_server", "lsp")
MODEL = "shared"  # its name in the bench's own catalogue
TYPED = ("engine/generation/runner.py", "engine/generation/disk_tier.py")
CONTEXT_LINES = 60  # of the file, before what is typed
SHORTEST_LINE = 8
DEBOUNCE_S = 0.05
PAUSES_S = (0.1, 0.4)
PHASE_S = 80.0  # and no longer
LONG_TOKENS = 2000
STEP_PIECES = 100  # of a chat alone, to measure a step by
GOAL = 1.5


@dataclass
class Times:
    """Of one phase, in seconds; `fresh` are items that a generation was begun for."""

    fresh: list[float] = field(default_factory=list)
    cached: list[float] = field(default_factory=list)
    empty: int = 0


class Editor:
    """One window with one server; types a file of this repository, line by line."""

    def __init__(self, client: StdioClient, number: int) -> None:
        self._client = client
        self._number = number
        self._versions = itertools.count(1)
        self._text = ""
        self._uri = ""

    async def phase(self, name: str, asks: int, times: Times) -> None:
        """Type and ask so many times; the document is new to the server and the engine."""
        lines = (ROOT / TYPED[self._number]).read_text(encoding="utf-8").splitlines()
        self._uri = f"file:///shared/{name}/{Path(TYPED[self._number]).name}"
        self._text = "\n".join([f"# {name}, {self._number}", *lines[:CONTEXT_LINES]]) + "\n"
        document = {"uri": self._uri, "languageId": "python", "version": 0, "text": self._text}
        await self._client.notify("textDocument/didOpen", {"textDocument": document})
        rng = random.Random(self._number)
        until = time.monotonic() + PHASE_S
        for line in itertools.cycle(lines[CONTEXT_LINES:]):
            column = rng.randrange(SHORTEST_LINE // 2, max(SHORTEST_LINE, len(line)) - 1)
            if len(line) >= SHORTEST_LINE:
                await self._type(line[:column])
                await asyncio.sleep(DEBOUNCE_S)
                await self._complete(times)
                await asyncio.sleep(rng.uniform(*PAUSES_S))
                await self._type(line[column:] + "\n")
                asks -= 1
            else:
                await self._type(line + "\n")
            if asks == 0 or time.monotonic() > until:
                return

    @property
    def _end(self) -> dict[str, int]:
        return {"line": self._text.count("\n"), "character": len(self._text.rpartition("\n")[2])}

    async def _type(self, text: str) -> None:
        end = self._end
        self._text += text
        document = {"uri": self._uri, "version": next(self._versions)}
        changes = [{"range": {"start": end, "end": end}, "text": text}]
        params = {"textDocument": document, "contentChanges": changes}
        await self._client.notify("textDocument/didChange", params)

    async def _complete(self, times: Times) -> None:
        sent = time.perf_counter()
        document = {"textDocument": {"uri": self._uri}}
        params = {**document, "position": self._end, "context": {"triggerKind": 2}}
        result = await self._client.request("textDocument/inlineCompletion", params)
        took = time.perf_counter() - sent
        items = result.get("items", []) if isinstance(result, dict) else result
        if not items:
            times.empty += 1
            return
        explain = {"command": "hearth.explain", "arguments": [self._uri]}
        told = await self._client.request("workspace/executeCommand", explain)
        (times.cached if told["data"]["trace"]["cache_hit"] else times.fresh).append(took)


class Tool:
    """A program that chats over HTTP."""

    def __init__(self, socket: Path) -> None:
        transport = httpx2.AsyncHTTPTransport(uds=str(socket))
        self._http = httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=120)
        self.streamed = 0
        self.prefills: list[float] = []

    async def close(self) -> None:
        await self._http.aclose()

    async def tokens(self, text: str) -> list[int]:
        ids: list[int] = (await self._http.post("/tokenize", json={"content": text})).json()["tokens"]
        return ids

    async def stream(self, words: str) -> AsyncGenerator[None, None]:
        """A chat of at most LONG_TOKENS; gives each piece's moment."""
        said = f"{words}: write the numbers from one to two thousand in words, each on a line of its own."
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": said}],
            "max_tokens": LONG_TOKENS,
            "stream": True,
        }
        async with self._http.stream("POST", "/v1/chat/completions", json=body) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    yield

    async def chat_for_ever(self) -> None:
        """Begin another chat when one ends early."""
        for number in itertools.count():
            async for _ in self.stream(f"Chat {number}"):
                self.streamed += 1

    async def prefill_for_ever(self, ids: list[int]) -> None:
        """Prompts of LONG_TOKENS, none of which begins like another."""
        for number in itertools.count(1):
            prompt = [*ids[number : number + 50], *ids[:LONG_TOKENS]][:LONG_TOKENS]
            begin = time.perf_counter()
            body = {"model": MODEL, "prompt": prompt, "max_tokens": 1}
            (await self._http.post("/v1/completions", json=body)).raise_for_status()
            self.prefills.append(time.perf_counter() - begin)

    async def step_seconds(self) -> float:
        """Median time between pieces of a chat that has the engine for itself."""
        moments = []
        async with aclosing(self.stream("Alone")) as pieces:
            async for _ in pieces:
                moments.append(time.perf_counter())
                if len(moments) == STEP_PIECES:
                    break
        return statistics.median(later - one for one, later in itertools.pairwise(moments))


@asynccontextmanager
async def editor(number: int) -> AsyncIterator[tuple[StdioClient, Editor]]:
    """A server that is ready."""
    ready = asyncio.Event()

    def notice(method: str, params: Any) -> None:
        if method == "didChangeStatus" and params.get("kind") == "Normal" and not params.get("busy"):
            ready.set()

    async with connect(SERVER, notice) as client:
        params = {
            "processId": None,
            "rootUri": "file:///shared",
            "capabilities": {},
            "initializationOptions": {"model": MODEL},
        }
        await client.request("initialize", params)
        await client.notify("initialized", {})
        await ready.wait()
        yield client, Editor(client, number)


async def measure(model: Path, asks: int) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(own_home({MODEL: model}))
        # Both at once: they race to start the daemon.
        started = [asyncio.ensure_future(stack_editor(stack, number)) for number in range(len(TYPED))]
        clients, editors = zip(*(await asyncio.gather(*started)), strict=True)
        places = find_places()
        tool = Tool(places.socket)
        stack.push_async_callback(tool.close)
        phases: dict[str, Times] = {}

        async def phase(name: str, beside: asyncio.Task[None] | None = None) -> float:
            phases[name] = Times()
            begin = time.monotonic()
            try:
                await asyncio.gather(*(one.phase(name, asks, phases[name]) for one in editors))
                if beside is not None and beside.done():
                    beside.result()
            finally:
                if beside is not None:
                    beside.cancel()
                    await asyncio.wait({beside})
            return time.monotonic() - begin

        ids = await tool.tokens((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
        decode_step = await tool.step_seconds()
        await phase("idle")
        chat_seconds = await phase("chat", asyncio.create_task(tool.chat_for_ever()))
        await phase("prefill", asyncio.create_task(tool.prefill_for_ever(ids)))
        memory = memory_mib([daemon_pid(places), *(client.pid for client in clients)])
        async with exchange(places.socket, "GET", STATE) as response:
            state = json.loads(await response.body())
    assert state["requests"]["loads"] == 1, "one model, loaded once, for all of them"
    steps = {"chat": decode_step, "prefill": chunk_seconds(state["engine"]["prefill_tps"])}
    return {
        "model": model.name,
        "memory_mib": dict(zip(("daemon", "editor 1", "editor 2"), memory, strict=True)),
        "step_ms": {name: round(1000 * seconds, 1) for name, seconds in steps.items()},
        "chat_tokens_per_s": {
            "alone": round(1 / decode_step, 1),
            "beside the editors": round(tool.streamed / chat_seconds, 1),
        },
        "prefill_ms": spread(tool.prefills),
        "phases": {
            name: {"fresh_item_ms": spread(times.fresh), "cached": len(times.cached), "empty": times.empty}
            for name, times in phases.items()
        },
        "goals": {name: goal(phases["idle"].fresh, phases[name].fresh, step) for name, step in steps.items()},
    }


async def stack_editor(stack: AsyncExitStack, number: int) -> tuple[StdioClient, Editor]:
    return await stack.enter_async_context(editor(number))


def memory_mib(pids: list[int | None]) -> list[float]:
    """Resident memory of processes."""
    told = (machine.fields(Path(f"/proc/{pid}/status")).get("VmRSS", "0 kB") for pid in pids)
    return [round(int(size.split()[0]) / 1024, 1) for size in told]


def chunk_seconds(prefill_tps: float) -> float:
    """How long a step with a whole chunk of a prompt takes."""
    speed = Speed()
    speed.prefill_tps = prefill_tps
    return speed.chunk_tokens / prefill_tps


def goal(idle: list[float], loaded: list[float], step: float) -> dict[str, Any]:
    """The 95th percentile under load against what it may be; in milliseconds."""
    before, after = percentile(idle, 0.95), percentile(loaded, 0.95)
    if before is None or after is None:
        return {"met": None}
    allowed = round(GOAL * before + 1000 * step, 1)
    return {"p95_ms": after, "allowed_ms": allowed, "met": after <= allowed}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", default=models.DEFAULT_MODEL, help="a GGUF file or a name of the catalogue"
    )
    parser.add_argument("--asks", type=int, default=60, help="completions of each editor in each phase")
    parser.add_argument("--json", type=Path, help="file to record the result in")
    args = parser.parse_args()
    model, where = models.resolve(args.model), machine.describe()
    result = asyncio.run(measure(model, args.asks))
    print(json.dumps(result, indent=1))
    if args.json:
        record = {
            "benchmark": "shared_load",
            "machine": where,
            "settings": {"asks": args.asks},
            "result": result,
        }
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
