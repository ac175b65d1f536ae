"""The whole engine with real weights: tokenizer, prompts, native kernels, scheduler and streams."""

import asyncio
from contextlib import aclosing

import pytest

from engine.client import open_in_process
from engine.types import ChatMessage, ChatRequest, FinishReason, InfillRequest

pytestmark = pytest.mark.model

# Holes and the first line that llama.cpp v0.5.0 gives for the same token ids (greedy, the same file). Not
# always the best answer, but the model's.
HOLES = {
    "py_add": ("def add(a, b):\n    return ", "\n\n\nprint(add(1, 2))\n", "a + b"),
    "py_fib": (
        "def fib(n):\n    if n < 2:\n        return n\n    ",
        "\n\n\nprint(fib(10))\n",
        "else:",
    ),
    "py_read": (
        "import json\n\n\ndef read_json(path):\n    with open(path) as f:\n        ",
        "\n\n\nconfig = read_json('config.json')\n",
        "return config",
    ),
    "ts_sum": (
        "function sum(xs: number[]): number {\n  let total = 0;\n  for (const x of xs) {\n    ",
        "\n  }\n  return total;\n}\n",
        "total += x;",
    ),
}


@pytest.fixture(scope="module")
def model_path(real_model):
    return real_model("qwen2.5-coder-0.5b")


@pytest.fixture
async def engine(model_path):
    engine = open_in_process(model_path, context_tokens=2048)
    await engine.wait_loaded()
    yield engine
    await engine.close()


async def collect(stream):
    async with aclosing(stream):
        return [delta async for delta in stream]


def pieces(deltas):
    return [(delta.text, delta.tokens, delta.logprob) for delta in deltas]


def text_of(deltas):
    return "".join(delta.text for delta in deltas)


async def test_holes_chat_cache_and_batching(engine):
    """One load for all, since loading takes longest."""
    status = await engine.status()
    assert status.state == "ready"
    assert status.supports_infill
    assert min(status.prefill_tps, status.decode_tps) > 1

    requests = {
        name: InfillRequest(prefix, suffix, max_tokens=24, stop=("\n",), session=name)
        for name, (prefix, suffix, _) in HOLES.items()
    }
    alone = {name: await collect(engine.infill(request)) for name, request in requests.items()}
    assert {name: text_of(deltas).strip() for name, deltas in alone.items()} == {
        name: line for name, (_, _, line) in HOLES.items()
    }
    assert all(deltas[-1].finish is FinishReason.STOP for deltas in alone.values())

    # Together, and from a warm cache: the same text, with the same probabilities to the last bit.
    together = await asyncio.gather(*(collect(engine.infill(request)) for request in requests.values()))
    for deltas, again in zip(alone.values(), together, strict=True):
        assert [(d.text, d.tokens, d.logprob) for d in deltas] == [
            (d.text, d.tokens, d.logprob) for d in again
        ]
        assert again[-1].timing.cached_tokens == again[-1].timing.prompt_tokens - 1

    # Inside a word: the first token drawn spells the word's start, which the document has already.
    healed = await collect(engine.infill(InfillRequest("import json\n\nprint(json.du", "\n", max_tokens=8)))
    assert text_of(healed).startswith("mps(")

    question = ChatMessage("user", "What is the capital of France? Answer in one word.")
    assert "Paris" in text_of(await collect(engine.chat(ChatRequest((question,), max_tokens=8))))


async def test_a_closed_stream_frees_the_engine_at_once(engine):
    stream = engine.chat(ChatRequest((ChatMessage("user", "Count from 1 to 100."),), max_tokens=400))
    first = await anext(stream)
    assert first.finish is None
    await stream.aclose()
    assert (await engine.status()).state == "ready"
