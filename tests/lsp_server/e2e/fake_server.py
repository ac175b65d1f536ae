"""The real server over stdio with a scripted policy: `python fake_server.py LOG_DIR LOG_LEVEL`.

The text of the cursor's line says what the policy does: `#wait` never answers, `#boom` fails in an unexpected
way, `#hang` blocks a worker thread for ever, `#print` prints to stdout as a library might, anything else is
answered with "ghost" at the cursor.
"""

import asyncio
import os
import sys
import threading
from pathlib import Path

from engine.types import EngineStatus
from lsp_server.inline_completion.policy import Answer, Question, Suggestion
from lsp_server.server import HearthServer
from lsp_server.transport.logs import start_logging
from lsp_server.transport.stdio import run_stdio


class Engine:
    async def status(self):
        return EngineStatus("ready", model="fake")

    async def close(self):
        pass


class Policy:
    def __init__(self, engine):
        pass

    async def answer(self, question: Question) -> Answer:
        before = question.text[: question.offset]
        if "#wait" in before:
            server.protocol.notify("test/started")
            try:
                await asyncio.Event().wait()
            finally:
                server.protocol.notify("test/stopped")
        if "#hang" in before:
            server.protocol.notify("test/started")
            await asyncio.to_thread(threading.Event().wait)
        if "#boom" in before:
            raise ValueError(f"cannot work with {before!r}")
        if "#print" in before:
            print("noise from Python", flush=True)
            os.write(1, b"noise from native code\n")
        return Answer((Suggestion("s1", "ghost", question.offset, question.offset),), "scripted")

    def follow(self, question):
        return False

    async def warm(self, question):
        pass

    def shown(self, suggestion_id):
        pass

    def accepted(self, suggestion_id):
        pass

    def partially_accepted(self, suggestion_id, length):
        pass

    def forget(self, uri):
        pass


async def make_engine(settings):
    return Engine()


log_file = start_logging(Path(sys.argv[1]), sys.argv[2])
server = HearthServer(make_engine, Policy, log_file)
run_stdio(server)
