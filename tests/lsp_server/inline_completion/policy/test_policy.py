"""The order of things: cache, silence, engine; what closes a stream; what is remembered."""

import asyncio

import pytest

from engine.errors import EngineUnavailable
from engine.types import ContextFile, FinishReason, Priority
from lsp_server.inline_completion.policy import CompletionPolicy, Question


async def test_stops_reading_at_the_first_line_end(ask, scripted):
    engine = scripted("1\n" + "more text that nobody reads\n" * 20)
    answer = await CompletionPolicy(engine).answer(ask("x = ¦\n"))
    assert answer.suggestions[0].insert_text == "1"
    assert engine.sent == [1]
    assert engine.closed == 1


async def test_stops_reading_at_the_end_of_the_block(ask, scripted):
    engine = scripted("return 1\n\n\ndef g():\n" + "    pass\n" * 50)
    answer = await CompletionPolicy(engine).answer(ask("def f():\n    ¦\n"))
    assert answer.suggestions[0].insert_text == "return 1"
    assert engine.sent[0] < 10


async def test_cancelling_closes_the_stream(ask, scripted):
    engine = scripted("ret", hang=True)
    task = asyncio.create_task(CompletionPolicy(engine).answer(ask("def f():\n    ¦\n")))
    await engine.hanging.wait()
    assert engine.closed == 0
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.closed == 1


async def test_an_engine_error_reaches_the_caller(ask, scripted):
    def fail(request):
        raise EngineUnavailable("The engine is still loading.")

    with pytest.raises(EngineUnavailable):
        await CompletionPolicy(scripted(reply=fail)).answer(ask("x = ¦\n"))


async def test_silent_without_asking_the_engine(ask, scripted):
    engine = scripted("x")
    answer = await CompletionPolicy(engine).answer(ask("foo(¦ alpha, beta, gamma)\n"))
    assert answer.suggestions == ()
    assert engine.requests == []


async def test_closing_characters_do_not_count_as_text_on_the_right(ask, scripted):
    answer = await CompletionPolicy(scripted("x")).answer(ask("foo(bar([{¦}]))  ))))))))\n"))
    assert answer.suggestions


async def test_a_word_being_deleted_is_left_alone(ask, scripted):
    engine = scripted("er\n")
    policy = CompletionPolicy(engine)
    await policy.answer(ask("x = numb¦\n"))
    answer = await policy.answer(ask("x = num¦\n"))
    assert answer.suggestions == ()
    assert "deleted" in answer.reason
    assert len(engine.requests) == 1


async def test_moving_left_is_no_deletion(ask, scripted):
    engine = scripted("er\n")
    policy = CompletionPolicy(engine)
    await policy.answer(ask("x = a.b, numb¦\n"))
    answer = await policy.answer(ask("x = a¦.b, numb\n"))
    assert "deleted" not in answer.reason
    assert len(engine.requests) == 2


async def test_typing_along_needs_no_engine(ask, scripted):
    engine = scripted("sorted(xs)\n")
    policy = CompletionPolicy(engine)
    await policy.answer(ask("y = ¦\n"))
    answer = await policy.answer(ask("y = sor¦\n"))
    assert answer.suggestions[0].insert_text == "ted(xs)"
    assert answer.suggestions[0].start == len("y = sor")
    assert answer.trace["cache_hit"] is True
    back = await policy.answer(ask("y = s¦\n"))
    assert back.suggestions[0].insert_text == "orted(xs)"
    assert len(engine.requests) == 1


async def test_partial_acceptance_by_line_needs_no_engine(ask, scripted):
    engine = scripted("for x in xs:\n        print(x)\n    return xs\n")
    policy = CompletionPolicy(engine)
    first = (await policy.answer(ask("def f(xs):\n    ¦\n"))).suggestions[0]
    policy.partially_accepted(first.id, len("for x in xs:\n"))
    answer = await policy.answer(ask("def f(xs):\n    for x in xs:\n        ¦\n"))
    assert answer.suggestions[0].insert_text == "print(x)\n    return xs"
    assert len(engine.requests) == 1


async def test_typing_something_else_asks_again(ask, scripted):
    engine = scripted("sorted(xs)\n", "list(xs)\n")
    policy = CompletionPolicy(engine)
    await policy.answer(ask("y = ¦\n"))
    answer = await policy.answer(ask("y = x¦\n"))
    assert answer.suggestions[0].insert_text == "list(xs)"


async def test_never_from_another_file(ask, scripted):
    engine = scripted("1\n", "2\n")
    policy = CompletionPolicy(engine)
    await policy.answer(ask("x = ¦\n", uri="file:///project/a.py"))
    answer = await policy.answer(ask("x = ¦\n", uri="file:///project/b.py"))
    assert answer.suggestions[0].insert_text == "2"


async def test_other_context_asks_again(ask, scripted):
    engine = scripted("1\n", "2\n")
    policy = CompletionPolicy(engine)
    await policy.answer(ask("x = ¦\n"))
    answer = await policy.answer(ask("x = ¦\n", context=(ContextFile("b.py", "x = 2\n"),)))
    assert answer.suggestions[0].insert_text == "2"


async def test_forgotten_documents_are_asked_again(ask, scripted):
    engine = scripted("1\n", "2\n")
    policy = CompletionPolicy(engine)
    question = ask("x = ¦\n")
    await policy.answer(question)
    policy.forget(question.uri)
    assert (await policy.answer(question)).suggestions[0].insert_text == "2"


async def test_invoked_gives_different_items(ask, scripted):
    engine = scripted("1\n", "2\n", "2\n", "3\n", "4\n")
    answer = await CompletionPolicy(engine).answer(ask("x = ¦\n", invoked=True, mode="single", count=3))
    assert [item.insert_text for item in answer.suggestions] == ["1", "2", "3"]
    assert engine.requests[0].sampling.temperature == 0
    sampled = [request.sampling for request in engine.requests[1:]]
    assert all(0.6 <= sampling.temperature <= 0.8 for sampling in sampled)
    assert len({sampling.seed for sampling in sampled}) == len(sampled) == 3


async def test_invoked_stops_drawing_when_all_are_alike(ask, scripted):
    engine = scripted("1\n")
    answer = await CompletionPolicy(engine).answer(ask("x = ¦\n", invoked=True, mode="single", count=3))
    assert len(answer.suggestions) == 1
    assert len(engine.requests) == 5


async def test_invoked_twice_answers_from_memory(ask, scripted):
    engine = scripted("1\n", "2\n")
    policy = CompletionPolicy(engine)
    question = ask("x = ¦\n", invoked=True, mode="single", count=2)
    first = await policy.answer(question)
    second = await policy.answer(question)
    assert [item.insert_text for item in second.suggestions] == [
        item.insert_text for item in first.suggestions
    ]
    assert len(engine.requests) == 2


async def test_automatic_gives_one_item(ask, scripted):
    engine = scripted("1\n", "2\n")
    answer = await CompletionPolicy(engine).answer(ask("x = ¦\n", count=3))
    assert len(answer.suggestions) == len(engine.requests) == 1


async def test_what_was_undone_is_not_offered_again(ask, scripted):
    engine = scripted("1\n")
    policy = CompletionPolicy(engine)
    first = (await policy.answer(ask("x = ¦\n"))).suggestions[0]
    policy.accepted(first.id)
    answer = await policy.answer(ask("x = ¦\n"))
    assert answer.suggestions == ()
    assert "undone" in answer.reason
    assert len(engine.requests) == 1
    in_another_mode = await policy.answer(ask("x = ¦\n", mode="single"))
    assert "undone" in in_another_mode.reason
    asked = await policy.answer(ask("x = ¦\n", invoked=True, mode="single", count=1))
    assert asked.suggestions[0].insert_text == "1"


async def test_a_slip_of_the_finger_loses_nothing(ask, scripted):
    """What was shown, typed over and deleted again is wanted as much as before."""
    policy = CompletionPolicy(scripted("1\n", "q\n"))
    first = (await policy.answer(ask("x = ¦\n"))).suggestions[0]
    policy.shown(first.id)
    await policy.answer(ask("x = w¦\n"))
    again = await policy.answer(ask("x = ¦\n"))
    assert again.suggestions[0].insert_text == first.insert_text


async def test_acceptance_prepares_the_next_prompt(ask, scripted):
    engine = scripted("a)\n")
    policy = CompletionPolicy(engine)
    first = (await policy.answer(ask("foo(¦)\nbar()\n"))).suggestions[0]
    policy.accepted(first.id)
    await engine.was_warmed.wait()
    (request,) = engine.warmed
    assert request.prefix == "foo(a)"
    assert request.suffix == "\nbar()\n"
    assert request.priority is Priority.BACKGROUND


async def test_a_failing_preparation_is_not_heard_of(ask, scripted):
    engine = scripted("1\n")
    policy = CompletionPolicy(engine)
    called = asyncio.Event()

    async def warm(request):
        called.set()
        raise EngineUnavailable("The engine was shut down.")

    engine.warm = warm
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    policy.accepted((await policy.answer(ask("x = ¦\n"))).suggestions[0].id)
    await called.wait()
    await asyncio.gather(*policy._background)
    assert errors == []


async def test_accepting_all_units_is_accepting(ask, scripted):
    engine = scripted("'😀'\n")
    policy = CompletionPolicy(engine)
    first = (await policy.answer(ask("x = ¦\n"))).suggestions[0]
    policy.partially_accepted(first.id, 3)
    assert policy._background == set()
    policy.partially_accepted(first.id, 4)
    await engine.was_warmed.wait()


async def test_unknown_ids_are_ignored(scripted):
    policy = CompletionPolicy(scripted(""))
    policy.shown("no such id")
    policy.accepted("no such id")
    policy.partially_accepted("no such id", 3)


async def test_warm_prepares_the_same_prompt_as_the_answer(ask, scripted):
    engine = scripted("1\n")
    policy = CompletionPolicy(engine)
    question = ask("import a\nx = ¦\ny = 2\n", path="src/a.py", context=(ContextFile("b.py", "b = 1\n"),))
    await policy.warm(question)
    await policy.answer(question)
    warmed, asked = engine.warmed[0], engine.requests[0]
    assert (warmed.prefix, warmed.suffix, warmed.path, warmed.context, warmed.session) == (
        asked.prefix,
        asked.suffix,
        asked.path,
        asked.context,
        asked.session,
    )
    assert warmed.priority is Priority.BACKGROUND
    assert asked.priority is Priority.COMPLETION
    assert asked.session == question.uri


async def test_tokens_follow_the_mode(ask, scripted):
    engine = scripted("")
    policy = CompletionPolicy(engine)
    await policy.answer(ask("x = ¦\n", max_tokens=100))
    await policy.answer(ask("def f():\n    ¦\n", max_tokens=100))
    assert [request.max_tokens for request in engine.requests] == [32, 100]


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        ((4, 7, "sorted"), "sorted(xs)"),
        ((4, 7, "sor"), "sor(xs)"),
    ],
)
async def test_a_selected_entry_begins_the_item_and_gives_its_range(ask, scripted, selected, expected):
    engine = scripted("(xs)\n")
    answer = await CompletionPolicy(engine).answer(ask("y = sor¦\n", selected=selected))
    (item,) = answer.suggestions
    assert (item.start, item.end, item.insert_text) == (4, 7, expected)
    assert engine.requests[0].prefix == "y = " + selected[2]


async def test_a_selected_entry_leaves_auto_closed_brackets_in_place(ask, scripted, apply):
    question = ask("foo(na¦)\n", selected=(4, 6, "name"))
    answer = await CompletionPolicy(scripted(".strip())\n")).answer(question)
    (item,) = answer.suggestions
    assert (item.start, item.end) == (4, 6)
    assert apply(question, item) == "foo(name.strip())\n"


@pytest.mark.parametrize(
    "selected", [(0, 3, "sorted"), (5, 99, "x"), (4, 8, "x"), (4, 7, "a\nb"), (4, 7, "a\rb")]
)
async def test_a_selected_entry_that_cannot_be_gives_nothing(ask, scripted, selected):
    engine = scripted("(xs)\n")
    answer = await CompletionPolicy(engine).answer(ask("y = sor¦\nz", selected=selected))
    assert answer.suggestions == ()
    assert engine.requests == []


@pytest.mark.parametrize("offset", [-1, 99, 2])
async def test_a_cursor_outside_the_text_gives_nothing(scripted, offset):
    engine = scripted("x")
    question = Question(text="a\r\nb", offset=offset, language_id="python", uri="file:///a")
    assert (await CompletionPolicy(engine).answer(question)).suggestions == ()
    assert engine.requests == []


@pytest.mark.parametrize(
    ("document", "language_id", "model"),
    [
        ("f(*args, *¦)\n", "python", "*kwargs)"),
        ("y = x *¦\n", "python", "* 2"),
        ("    xs.retain(|x| *¦)\n", "rust", "*x > 2)"),
        ("i +¦\n", "typescript", "+;"),
    ],
)
async def test_an_operator_that_may_stand_twice_is_not_taken_for_a_repetition(
    ask, scripted, apply, document, language_id, model
):
    question = ask(document, language_id)
    (item,) = (await CompletionPolicy(scripted(model)).answer(question)).suggestions
    assert apply(question, item).startswith(document.partition("¦")[0] + model[0])


async def test_the_trace_tells_the_story(ask, scripted):
    engine = scripted("a + b\n\n\ndef sub", finish=FinishReason.LENGTH)
    answer = await CompletionPolicy(engine).answer(ask("def add(a, b):\n    ¦\n"))
    assert answer.trace["mode"] == "multi"
    assert answer.trace["mode_rule"] == "empty block"
    (sample,) = answer.trace["samples"]
    assert sample["raw"].startswith("a + b\n")
    assert sample["text"] == "a + b"
    assert sample["cut"]
    assert sample["steps"]
    assert sample["mean_logprob"] == pytest.approx(-0.1)
    assert sample["refused"] == ""


async def test_the_trace_holds_the_engines_timing_when_the_stream_ended_by_itself(ask, scripted):
    answer = await CompletionPolicy(scripted("1")).answer(ask("x = ¦\n"))
    assert answer.trace["samples"][0]["timing"]["prompt_tokens"] == 100


async def test_memory_is_bounded(ask, scripted):
    policy = CompletionPolicy(scripted("1\n"))
    for number in range(300):
        await policy.answer(ask(f"x{number} = ¦\n", uri=f"file:///{number}"))
    assert len(policy._cache) == 64
    assert len(policy._offers) == len(policy._latest) == 128


async def test_outcomes_are_counted_once(ask, scripted):
    policy = CompletionPolicy(scripted("1\n", "2\n"))
    first = (await policy.answer(ask("x = ¦\n"))).suggestions[0]
    policy.shown(first.id)
    policy.accepted(first.id)
    policy.accepted(first.id)
    answer = await policy.answer(ask("y = ¦\n"))
    assert answer.trace["outcomes"] == {"shown": 1, "accepted": 1}
