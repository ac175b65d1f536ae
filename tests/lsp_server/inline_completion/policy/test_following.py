"""A newer question goes on with the generation that runs, exactly where nothing is lost by it."""

import asyncio

import pytest

from engine.types import ContextFile, FinishReason
from lsp_server.inline_completion.policy import CompletionPolicy

DOCUMENT = "def f(xs):\n    ¦\n"
WRITTEN = "return sorted(xs)\n    # and more\n"


@pytest.fixture
def running(ask, stepped):
    """A policy that is answering a question; so many pieces of the answer have come."""

    async def start(document=DOCUMENT, text=WRITTEN, pieces=0, finish=FinishReason.STOP, **options):
        engine = stepped(text, finish)
        policy = CompletionPolicy(engine)
        task = asyncio.create_task(policy.answer(ask(document, **options)))
        await turns()
        engine.allow(pieces)
        await turns()
        return policy, engine, task

    return start


async def turns():
    for _ in range(30):
        await asyncio.sleep(0)


@pytest.mark.parametrize("pieces", [0, 1, 2, 4])
@pytest.mark.parametrize("typed", ["", "r", "ret", "retur", "return s"])
async def test_typing_along_needs_no_second_run(running, ask, pieces, typed):
    policy, engine, task = await running(pieces=pieces)
    newer = ask(DOCUMENT.replace("¦", f"{typed}¦"))
    assert policy.follow(newer)
    engine.allow(30)
    (item,) = (await task).suggestions
    assert (item.start, item.end) == (newer.offset, newer.offset)
    assert typed + item.insert_text == "return sorted(xs)\n    # and more"[: None if typed == "" else 17]
    assert len(engine.runs) == 1


async def test_each_of_several_newer_questions_is_followed(running, ask):
    policy, engine, task = await running()
    for typed in ("re", "ret", "ret", "return sort"):
        assert policy.follow(ask(DOCUMENT.replace("¦", f"{typed}¦")))
        engine.allow(1)
        await turns()
    engine.allow(30)
    assert (await task).suggestions[0].insert_text == "ed(xs)"
    assert len(engine.runs) == 1


async def test_what_was_typed_before_the_model_and_differs_starts_afresh(running, ask):
    policy, engine, task = await running(pieces=0)
    engine.reply = lambda request: "tuple(xs)\n"
    assert policy.follow(ask(DOCUMENT.replace("¦", "return t¦")))
    engine.allow(3)  # "return so"
    await turns()
    assert [run.closed for run in engine.runs] == [True, False]
    assert engine.runs[1].request.prefix.endswith("    return t")
    engine.allow(30)
    (item,) = (await task).suggestions
    assert item.insert_text == "tuple(xs)"


async def test_an_answer_that_is_there_already_comes_at_once(running, ask):
    policy, engine, task = await running(
        pieces=7
    )  # "return sorted(xs)\n   ", and the mode was: several lines
    assert not task.done()
    assert policy.follow(ask(DOCUMENT.replace("¦", "return ¦")))
    await turns()
    assert engine.runs[0].closed
    assert (await task).suggestions[0].insert_text == "sorted(xs)"


@pytest.mark.parametrize(
    "document",
    [
        "def f(xs):\n    x¦\n",  # not what the model writes
        "def f(xs):\n    ret¦x\n",  # text came in behind the cursor too
        "def f(xs):\n    (¦)\n",
        "def g(xs):\n    ret¦\n",  # another change elsewhere
        "def f(xs):\n    ret¦\n\n",
        "def f(xs):\n   ¦\n",
        "def f(xs):\n¦    ret\n",
    ],
)
async def test_other_changes_are_not_followed(running, ask, document):
    policy, engine, task = await running(pieces=1)
    assert not policy.follow(ask(document))
    engine.allow(30)
    assert (await task).suggestions  # the older question's own answer is as it was


@pytest.mark.parametrize(
    "options",
    [
        {"invoked": True},
        {"selected": (15, 18, "return")},
        {"uri": "file:///project/b"},
        {"path": "other.py"},
        {"context": (ContextFile("b.py", "x = 1\n"),)},
    ],
)
async def test_other_questions_are_not_followed(running, ask, options):
    policy, engine, task = await running(pieces=1)
    assert not policy.follow(ask("def f(xs):\n    ret¦\n", **options))
    engine.allow(30)
    await task


async def test_a_word_being_deleted_is_left_alone(running, ask):
    policy, engine, task = await running("def f(xs):\n    re¦\n", "turn sorted(xs)\n", pieces=1)
    assert policy.follow(ask("def f(xs):\n    retu¦\n"))
    assert not policy.follow(ask("def f(xs):\n    ret¦\n"))
    engine.allow(30)
    await task


async def test_what_memory_has_is_not_waited_for(ask, stepped):
    engine = stepped("sorted(xs)\n")
    policy = CompletionPolicy(engine)
    first = asyncio.create_task(policy.answer(ask("y = ¦\nz = 1\n")))
    await turns()
    engine.allow(30)
    assert (await first).suggestions
    engine.reply = lambda request: "list(xs)\n"
    second = asyncio.create_task(policy.answer(ask("y =¦\nz = 1\n")))
    await turns()
    assert not policy.follow(ask("y = so¦\nz = 1\n"))  # also " so" is not yet known to differ
    second.cancel()
    await turns()


async def test_nothing_runs_nothing_is_followed(ask, stepped):
    policy = CompletionPolicy(stepped("x"))
    assert not policy.follow(ask("y = ¦\n"))


async def test_a_failed_or_cancelled_run_is_not_followed(running, ask):
    policy, engine, task = await running(pieces=1)
    task.cancel()
    assert engine.runs[0].closed is False
    await turns()
    assert engine.runs[0].closed
    assert not policy.follow(ask(DOCUMENT))


async def test_a_run_for_one_line_that_ended_short_does_not_serve_several(running, ask):
    policy, engine, task = await running("if x¦\n", ":\n    y", finish=FinishReason.LENGTH)
    engine.reply = lambda request: "y = 2\n"
    assert policy.follow(ask("if x:\n    ¦\n"))
    engine.allow(10)
    await turns()
    assert [run.request.max_tokens for run in engine.runs] == [32, 128]
    engine.allow(10)
    assert (await task).suggestions[0].insert_text == "y = 2"


async def test_one_line_gets_no_more_tokens_than_a_run_of_its_own(running, ask):
    policy, engine, task = await running(text="return " + ", ".join(f"n{n}" for n in range(100)))
    assert policy.follow(ask(DOCUMENT.replace("¦", "ret¦")))
    engine.allow(33)
    await turns()
    assert engine.runs[0].closed
    (item,) = (await task).suggestions
    assert 32 * 3 - 3 <= len(item.insert_text) <= 32 * 3


async def test_line_ends_of_the_document_do_not_matter(running, ask):
    policy, engine, task = await running("def f(xs):\r\n    ¦\r\n", "if xs:\r\n        return xs\n", pieces=1)
    newer = ask("def f(xs):\r\n    if xs:\r\n        ¦\r\n")
    assert policy.follow(newer)
    engine.allow(30)
    (item,) = (await task).suggestions
    assert item.insert_text == "return xs"
    assert item.start == newer.offset


async def test_the_trace_tells_of_it(running, ask):
    policy, engine, task = await running(pieces=1)
    policy.follow(ask(DOCUMENT.replace("¦", "retur¦"), version=7))
    engine.allow(30)
    answer = await task
    assert answer.trace["samples"][0]["typed_along"] == 5
    assert (answer.trace["version"], answer.trace["mode"]) == (7, "single")


async def test_a_run_that_has_just_been_ended_serves_only_whom_its_text_suffices(running, ask):
    async def ended():
        policy, engine, task = await running("if x¦\n", ":\n    y = 1\n")
        engine.allow(1)  # ":\n ", and one line was wanted
        while not engine.runs[0].closed:
            await asyncio.sleep(0)
        assert not task.done()
        return policy, task

    policy, task = await ended()
    assert not policy.follow(ask("if x:\n    ¦\n"))
    assert (await task).suggestions[0].insert_text == ":"
    policy, task = await ended()
    assert policy.follow(ask("if x¦\n"))
    assert (await task).suggestions[0].insert_text == ":"
