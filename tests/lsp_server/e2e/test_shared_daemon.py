"""Several real language servers over one real daemon and a real model."""

import asyncio
import json
import os
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from engine.client.connect import connect as connect_engine
from engine.service.control import resident_bytes
from engine.types import InfillRequest
from lsp_server.demo.client import connect

pytestmark = pytest.mark.model
LSP = (sys.executable, "-m", "lsp_server", "lsp")
TEXT = "def add(a, b):\n    return \n\n\nprint(add(1, 2))\n"
PLACE = {"line": 1, "character": 11}


class Editor:
    """An editor with one document, over a real server's stdio."""

    def __init__(self, client, notices):
        self.client = client
        self.notices = notices

    @property
    def pid(self):
        return self.client._process.pid

    async def start(self, model, **settings):
        await self.client.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": None,
                "capabilities": {},
                "initializationOptions": {
                    "model": str(model),
                    "mode": "single",
                    "suggestions": 1,
                    **settings,
                },
            },
        )
        await self.client.notify("initialized", {})
        document = {"uri": "file:///w/a.py", "languageId": "python", "version": 1, "text": TEXT}
        await self.client.notify("textDocument/didOpen", {"textDocument": document})

    async def status(self, wanted):
        """The first status that `wanted` accepts."""
        while True:
            method, params = await self.notices.get()
            assert method != "$/gone"
            if method == "didChangeStatus" and wanted(params):
                return params

    async def complete(self, kind=1):
        params = {
            "textDocument": {"uri": "file:///w/a.py"},
            "position": PLACE,
            "context": {"triggerKind": kind},
        }
        answer = await self.client.request("textDocument/inlineCompletion", params)
        return [] if answer is None else [item["insertText"] for item in answer["items"]]

    async def change(self, version, text):
        change = {"textDocument": {"uri": "file:///w/a.py", "version": version}}
        await self.client.notify("textDocument/didChange", {**change, "contentChanges": [{"text": text}]})


@asynccontextmanager
async def editor():
    notices = asyncio.Queue()
    async with connect(LSP, lambda method, params: notices.put_nowait((method, params))) as client:
        yield Editor(client, notices)


async def running(daemon_home):
    return json.loads(await daemon_home.ask("GET", "/hearth/control/state"))


async def test_two_editors_and_a_program_share_one_model(daemon_home, real_model):
    model = real_model("qwen2.5-coder-0.5b")
    async with AsyncExitStack() as stack:
        editors = [await stack.enter_async_context(editor()) for _ in range(2)]
        await asyncio.gather(*(one.start(model) for one in editors))
        answers = await asyncio.gather(*(one.complete() for one in editors))
        engine = await connect_engine(str(model))
        pieces = [piece async for piece in engine.infill(InfillRequest(TEXT[:26], TEXT[26:], max_tokens=8))]
        assert [answer[0] for answer in answers] == ["a + b", "a + b"]
        assert "".join(piece.text for piece in pieces).startswith("a + b")
        daemon = daemon_home.only_pid()
        state = await running(daemon_home)
        assert state["pid"] == daemon
        assert state["requests"]["loads"] == 1
        # The servers hold neither the engine nor what it computes with, nor the model; the daemon does.
        for pid, expected in ((editors[0].pid, False), (editors[1].pid, False), (daemon, True)):
            mapped = Path(f"/proc/{pid}/maps").read_text()
            assert ("numpy" in mapped) == expected
            assert ("engine/_native" in mapped) == expected
            assert (resident_bytes(Path(f"/proc/{pid}/statm")) > model.stat().st_size / 2) == expected
    # The editors are gone, and the daemon is still there for the next.
    assert daemon_home.only_pid() == daemon


async def test_a_daemon_that_dies_costs_one_suggestion(daemon_home, real_model):
    model = real_model("qwen2.5-coder-0.5b")
    async with editor() as one:
        await one.start(model)
        assert await one.complete() == ["a + b"]
        pid = daemon_home.only_pid()
        os.kill(pid, signal.SIGSTOP)
        # Another document text, so that nothing that is cached answers.
        await one.change(2, TEXT.replace("add(a, b)", "total(a, b)"))
        asked = asyncio.create_task(one.complete())
        while _connections(daemon_home.places.socket) < 2:
            await asyncio.sleep(0.01)
        daemon_home.kill(pid)
        assert await asked == []
        assert await one.complete() == ["a + b"]
        assert daemon_home.only_pid() != pid


def _connections(path):
    """Sockets of the kernel under this path: the one that listens, and one for each connection."""
    return Path("/proc/net/unix").read_text().count(f" {path}\n")


async def test_a_model_that_is_not_there_is_told_as_before(daemon_home):
    async with editor() as one:
        await one.start("no-such-model")
        status = await one.status(lambda params: params["kind"] == "Error")
        assert "no-such-model" in status["message"]
        assert await one.complete(kind=2) == []


async def test_loading_is_told_until_the_model_is_there(daemon_home, real_model):
    async with editor() as one:
        await one.start(real_model("qwen2.5-coder-0.5b"))
        await one.status(lambda params: params["busy"] and params["message"] == "loading the model")
        await one.status(lambda params: not params["busy"] and params["kind"] == "Normal")
        assert (await running(daemon_home))["engine"]["state"] in ("ready", "busy")


async def test_another_number_of_threads_is_taken_over(daemon_home, real_model):
    async with editor() as one:
        await one.start(real_model("qwen2.5-coder-0.5b"), threads=1)
        assert await one.complete() == ["a + b"]
        assert (await running(daemon_home))["engine"]["threads"] == 1
