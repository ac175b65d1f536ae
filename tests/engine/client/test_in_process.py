"""The asyncio side of the engine over the fake model: streams, cancellation, states and failures."""

import asyncio
import subprocess
import sys
import threading
from contextlib import aclosing
from dataclasses import replace

import pytest

from engine.backends import choose
from engine.client import in_process
from engine.client.in_process import RESERVED_TOKENS, InProcessEngine, _deliver
from engine.errors import DeadlineExceeded, EngineUnavailable, ModelFileError, RequestError
from engine.generation.prompting import Prompt
from engine.generation.speed import MAX_CHUNK
from engine.generation.thread import LoadedModel
from engine.types import (
    ChatDelta,
    ChatMessage,
    ChatRequest,
    CompletionRequest,
    FinishReason,
    InfillRequest,
    Priority,
    TextDelta,
)

PATIENCE = 20.0


class FakePrompting:
    """Characters are tokens; a chat is its messages' contents. Remembers the budgets it was given."""

    supports_infill = True
    tool_format = "hermes"
    thinks = True

    def __init__(self, fakes):
        self.fakes = fakes
        self.budgets = []

    def infill(self, request, budget):
        self.budgets.append(budget)
        return self._prompt(request.prefix)

    def complete(self, request):
        return self._prompt(request.prompt)

    def chat(self, request, context_tokens):
        self.budgets.append(context_tokens)
        prompt = self._prompt("".join(message.content for message in request.messages))
        return replace(prompt, deltas=lambda event: [ChatDelta(event.text, finish=event.finish)])

    def count(self, request):
        return len(self.chat(request, 0).ids)

    def tokenize(self, text, *, special):
        return [ord(character) for character in text] + [0] * special

    def detokenize(self, ids):
        return "".join(map(chr, ids))

    def _prompt(self, text):
        if text == "refuse":
            raise RequestError("This text is refused.")
        return Prompt(
            tuple(1 + ord(character) % 63 for character in text), self.fakes.Output(), lambda event: [event]
        )


class Gate:
    """Called inside each forward: stops the engine thread there while it is closed."""

    def __init__(self):
        self.entered = threading.Event()
        self._open = threading.Event()
        self._open.set()

    def __call__(self):
        self.entered.set()
        assert self._open.wait(PATIENCE)

    def close(self):
        self.entered.clear()
        self._open.clear()

    def open(self):
        self._open.set()

    async def reached(self):
        assert await asyncio.to_thread(self.entered.wait, PATIENCE)


class Setup:
    def __init__(self, fakes, context_tokens=2048):
        self.fakes = fakes
        self.gate = Gate()
        self.backend = fakes.Backend(context_tokens=context_tokens, kv_tokens=4096, inside=self.gate)
        self.prompting = FakePrompting(fakes)
        self.engine = InProcessEngine("fake", lambda: LoadedModel(self.backend, self.prompting))

    def expected(self, text, max_tokens):
        prompt = self.prompting._prompt(text).ids
        return self.fakes.text(self.fakes.continuation(list(prompt), max_tokens))


@pytest.fixture
async def setup(fakes):
    setup = Setup(fakes)
    await setup.engine.wait_loaded()
    yield setup
    setup.gate.open()
    await setup.engine.close()


def long_text(fakes, at_least):
    """A prompt whose continuation does not end early."""
    for n in range(1000):
        text = f"case {n}"
        prompt = [1 + ord(character) % 63 for character in text]
        if len(fakes.continuation(prompt, at_least)) == at_least and 0 not in fakes.continuation(
            prompt, at_least
        ):
            return text
    raise AssertionError


async def collect(stream):
    async with aclosing(stream):
        return [delta async for delta in stream]


async def test_infill_streams_the_text_and_ends_with_reason_and_timing(setup):
    deltas = await collect(setup.engine.infill(InfillRequest("def f(", ")", max_tokens=12)))
    assert "".join(delta.text for delta in deltas) == setup.expected("def f(", 12)
    first, *pieces, last = deltas
    assert all(piece.finish is None for piece in (first, *pieces))
    assert all(piece.timing is None for piece in pieces)
    assert (first.timing.prompt_tokens, first.timing.generated_tokens) == (6, first.tokens)
    assert last.finish in (FinishReason.STOP, FinishReason.LENGTH)
    assert last.timing.prompt_tokens == 6
    assert sum(delta.tokens for delta in deltas) == last.timing.generated_tokens


async def test_chat_streams_too(setup):
    request = ChatRequest((ChatMessage("user", "hello"),), max_tokens=9)
    deltas = await collect(setup.engine.chat(request))
    assert all(isinstance(delta, ChatDelta) for delta in deltas)
    assert setup.prompting.budgets == [2048]
    assert "".join(delta.text for delta in deltas) == setup.expected("hello", 9)


async def test_completions_stream_too(setup):
    deltas = await collect(setup.engine.complete(CompletionRequest("hello", max_tokens=9)))
    assert "".join(delta.text for delta in deltas) == setup.expected("hello", 9)


async def test_questions_about_tokens(setup):
    assert await setup.engine.tokenize("ab") == [97, 98]
    assert await setup.engine.tokenize("ab", special=True) == [97, 98, 0]
    assert await setup.engine.detokenize([97, 98]) == "ab"
    assert await setup.engine.count_tokens(ChatRequest((ChatMessage("user", "hello"),))) == 5


async def test_a_slow_chat_prompt_does_not_delay_completions(setup):
    release = threading.Event()

    def slow(request):
        assert release.wait(PATIENCE)
        return setup.prompting._prompt(request.prompt)

    setup.prompting.complete = slow
    waiting = asyncio.create_task(collect(setup.engine.complete(CompletionRequest("hello", max_tokens=2))))
    await asyncio.sleep(0)
    await collect(setup.engine.infill(InfillRequest("fine", "", max_tokens=2)))
    release.set()
    await waiting


async def test_many_requests_at_once_answer_as_each_alone(setup):
    texts = [f"text {n}" for n in range(12)]
    streams = [
        collect(setup.engine.infill(InfillRequest(text, "", max_tokens=15, priority=Priority(n % 3))))
        for n, text in enumerate(texts)
    ]
    for text, deltas in zip(texts, await asyncio.gather(*streams), strict=True):
        assert "".join(delta.text for delta in deltas) == setup.expected(text, 15)


async def test_warm_fills_the_cache_that_infill_finds(setup):
    request = InfillRequest("a long enough prefix", "", session="doc")
    assert await setup.engine.warm(request) is None
    deltas = await collect(setup.engine.infill(request))
    assert deltas[-1].timing.cached_tokens == len(request.prefix) - 1


async def test_infill_supersedes_a_warming_of_its_session(setup):
    setup.gate.close()
    warm = asyncio.create_task(
        setup.engine.warm(InfillRequest("w" * 1500, "", session="doc", priority=Priority.BACKGROUND))
    )
    await setup.gate.reached()
    infill = asyncio.create_task(
        collect(setup.engine.infill(InfillRequest("x", "", session="doc", max_tokens=2)))
    )
    await asyncio.sleep(0)  # starts the infill
    # Its prompt is made on the worker; once a later one is made too, the infill was handed over.
    await collect_refusal(setup)
    setup.gate.open()
    await infill
    await warm
    longest = max(len(tokens) for call in setup.backend.calls for _, tokens in call)
    warmed = sum(len(tokens) for call in setup.backend.calls for _, tokens in call if len(tokens) > 100)
    assert warmed == longest <= MAX_CHUNK, "only the chunk that ran already"


async def collect_refusal(setup):
    with pytest.raises(RequestError, match="refused"):
        await collect(setup.engine.infill(InfillRequest("refuse", "")))


async def test_closing_a_stream_stops_the_engine_within_a_token(setup, fakes):
    text = long_text(fakes, 40)
    stream = setup.engine.infill(InfillRequest(text, "", max_tokens=40))
    first = await anext(stream)
    assert first.finish is None
    await stream.aclose()
    calls = len(setup.backend.calls)
    assert (await setup.engine.status()).state == "ready"
    await collect(setup.engine.infill(InfillRequest("y", "", max_tokens=1)))
    assert len(setup.backend.calls) == calls + 1


async def test_cancelling_the_task_interrupts_the_prefill_that_runs(setup):
    setup.gate.close()
    task = asyncio.create_task(collect(setup.engine.infill(InfillRequest("p" * 300, "", max_tokens=4))))
    await setup.gate.reached()
    calls = len(setup.backend.calls)
    task.cancel()
    await collect_refusal(setup)  # lets the task run until it waits for the engine
    assert setup.backend.cancelled
    setup.gate.open()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(setup.backend.calls) == calls
    assert (await setup.engine.status()).state == "ready"


async def test_a_stream_never_started_costs_nothing(setup):
    stream = setup.engine.infill(InfillRequest("z", ""))
    await stream.aclose()
    assert setup.prompting.budgets == []


async def test_refused_requests_raise_and_leave_the_engine_well(setup):
    await collect_refusal(setup)
    with pytest.raises(RequestError, match="2048 tokens, 1 too many"):
        await collect(setup.engine.infill(InfillRequest("q" * 2048, "")))
    await collect(setup.engine.infill(InfillRequest("fine", "", max_tokens=2)))


async def test_max_tokens_are_cut_to_what_the_window_holds(setup, fakes):
    deltas = await collect(setup.engine.infill(InfillRequest("q" * 2046, "", max_tokens=64)))
    assert deltas[-1].timing.generated_tokens <= 2


async def test_budget_is_the_requests_own_or_follows_the_speed(setup):
    await collect(setup.engine.infill(InfillRequest("a", "", max_tokens=64, prompt_budget=100)))
    await collect(setup.engine.infill(InfillRequest("a", "", max_tokens=64, prompt_budget=9999)))
    await collect(setup.engine.infill(InfillRequest("a", "", max_tokens=64)))
    own, clipped, chosen = setup.prompting.budgets
    assert (own, clipped) == (100, 2048 - 64)
    assert chosen in (256, 512, 1024, 2048 - RESERVED_TOKENS)


async def test_status_tells_model_and_measured_speed(setup):
    status = await setup.engine.status()
    assert (status.state, status.model, status.kernels, status.threads) == ("ready", "fake", "none", 1)
    assert status.context_tokens == 2048
    assert status.supports_infill
    assert status.tool_format == "hermes"
    assert status.thinks
    assert status.prefill_tps > 0
    assert status.decode_tps > 0


async def test_status_is_busy_while_a_request_runs_and_does_not_wait_for_it(setup):
    setup.gate.close()
    task = asyncio.create_task(collect(setup.engine.infill(InfillRequest("b", "", max_tokens=3))))
    await setup.gate.reached()
    assert (await setup.engine.status()).state == "busy"
    setup.gate.open()
    await task


async def test_while_loading_requests_are_refused_and_status_says_so(fakes):
    release = threading.Event()

    def load():
        assert release.wait(PATIENCE)
        return LoadedModel(fakes.Backend(), FakePrompting(fakes))

    engine = InProcessEngine("slow-model", load)
    status = await engine.status()
    assert (status.state, status.message) == ("loading", "Loading slow-model.")
    with pytest.raises(EngineUnavailable, match="still loading"):
        await collect(engine.infill(InfillRequest("a", "")))
    release.set()
    await engine.wait_loaded()
    assert (await engine.status()).state == "ready"
    await engine.close()


@pytest.mark.parametrize("route", ["infill", "complete", "chat", "warm"])
async def test_a_request_has_the_time_that_it_says(setup, route):
    requests = {
        "complete": CompletionRequest("text"),
        "chat": ChatRequest((ChatMessage("user", "text"),)),
    }
    request = requests.get(route, InfillRequest("text", ""))

    async def ask(seconds):
        asked = getattr(setup.engine, route)(replace(request, timeout_s=seconds))
        return await (asked if route == "warm" else collect(asked))

    await ask(600.0)
    with pytest.raises(DeadlineExceeded):
        await ask(1e-9)  # it has passed when the engine's thread looks


async def test_closing_reaches_the_load_of_a_real_model(tiny_model, monkeypatch):
    """The load goes on until it hears of it."""
    loading, ended = threading.Event(), []

    def load_backend(gguf, *, cancelled, **options):
        def ask():
            loading.set()
            return cancelled()

        try:
            while True:
                choose.load_backend(gguf, cancelled=ask, **options).close()
        except InterruptedError:
            ended.append(True)
            raise

    monkeypatch.setattr(in_process, "load_backend", load_backend)
    engine = in_process.open_in_process(tiny_model("qwen2"), threads=1, context_tokens=64)
    assert await asyncio.to_thread(loading.wait, 30)
    await engine.close()
    assert ended == [True]


async def test_a_model_that_cannot_load_is_told_in_words(fakes):
    def load():
        raise ModelFileError("m.gguf is truncated.", action="Fetch it again.")

    engine = InProcessEngine("m", load)
    with pytest.raises(ModelFileError, match="truncated") as failure:
        await engine.wait_loaded()
    assert failure.value.action == "Fetch it again."
    status = await engine.status()
    assert (status.state, status.message) == ("failed", "m.gguf is truncated. Fetch it again.")
    with pytest.raises(ModelFileError, match="truncated"):
        await engine.warm(InfillRequest("a", ""))
    await engine.close()


async def test_a_crash_fails_every_request_with_words_and_never_hangs(setup):
    setup.gate.close()
    running = [
        asyncio.create_task(collect(setup.engine.infill(InfillRequest(f"text {n}", "", max_tokens=9))))
        for n in range(3)
    ]
    await setup.gate.reached()
    await collect_refusal(setup)

    def crash():
        raise ZeroDivisionError("bug")

    setup.backend.inside = crash
    setup.gate.open()
    for result in await asyncio.gather(*running, return_exceptions=True):
        assert isinstance(result, EngineUnavailable)
        assert "ZeroDivisionError: bug" in str(result)
    assert (await setup.engine.status()).state == "failed"
    with pytest.raises(EngineUnavailable):
        await collect(setup.engine.infill(InfillRequest("a", "")))
    await setup.engine.close()
    assert setup.backend.closed


async def test_close_ends_running_requests_frees_the_model_and_can_be_repeated(setup):
    setup.gate.close()
    running = asyncio.create_task(collect(setup.engine.infill(InfillRequest("c" * 200, "", max_tokens=9))))
    await setup.gate.reached()
    closing = asyncio.create_task(setup.engine.close())
    await asyncio.sleep(0)
    setup.gate.open()
    await closing
    with pytest.raises(EngineUnavailable, match="shut down"):
        await running
    assert setup.backend.closed
    await setup.engine.close()
    for call in (setup.engine.status(), setup.engine.warm(InfillRequest("a", ""))):
        with pytest.raises(EngineUnavailable, match="shut down"):
            await call


async def test_one_thread_alone_touches_the_backend(setup):
    await asyncio.gather(
        *(collect(setup.engine.infill(InfillRequest(f"{n}", "", max_tokens=5))) for n in range(8))
    )
    assert len(setup.backend.owners) == 1
    assert threading.get_ident() not in setup.backend.owners


def test_events_for_a_closed_loop_are_dropped():
    loop = asyncio.new_event_loop()
    loop.close()
    events = asyncio.Queue()
    _deliver(loop, events, [TextDelta("late")])
    assert events.empty()


def test_importing_the_interface_is_light():
    script = "import sys, engine.client; sys.exit('numpy' in sys.modules or 'tokenizers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
