"""Somebody types while the model writes, in any order of keys, questions and tokens: no wrong text ever.

The model is fixed: it knows one text for the place, and other text for any other document. What the editor
would hold after taking an answer is compared with what a policy that never heard of the typing answers.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.types import FinishReason
from lsp_server.inline_completion.policy import CompletionPolicy, Question

# Text before and after the cursor, and what the model writes there.
PLACES = [
    (
        "def f(xs):\n    ",
        "\n\n\nprint(f([1]))\n",
        "for x in xs:\n        print(x)\n    return xs\n\n\ndef g():\n",
    ),
    ("def f(xs):\n    ", "\n", "return sorted(xs)\n    # and more\n"),
    ("y = ", "\nz = 1\n", "sorted(xs)\nz = 1\n"),
    ("foo(", ")\nbar()\n", "a, [b, (c)])\nbar()\n"),
    ("x = fo", "\n", "foo(1)\nprint(x)"),
    ("if x", "\n    pass\n", ":\n    y = 1\n"),
    ("s = ", "\n", "'it (is' + \"a\"  # [note\nt = 2\n"),
    ("def f():\n", "\n", "    return {\n        'a': 1,\n    }\n"),
]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("along"), st.integers(1, 5)),
        st.tuples(st.just("astray"), st.sampled_from(["q", "(", "\n", " ", "()"])),
        st.tuples(st.just("back"), st.integers(1, 2)),
        st.tuples(st.just("token"), st.integers(1, 6)),
        st.tuples(st.just("turn"), st.integers(1, 8)),
        st.tuples(st.just("ask"), st.just(0)),
        st.tuples(st.just("ask"), st.just(0)),
    ),
    max_size=25,
)
URI = "file:///w/a.py"


def model(place):
    before, _, written = place

    def reply(request):
        text = before + written
        if text.startswith(request.prefix) and request.prefix.startswith(before):
            return text[len(request.prefix) :]
        return f"other_{len(request.prefix)}(1)\nmore\n"

    return reply


@dataclass
class Editor:
    """The document, the keys typed into it, and what was asked where."""

    session: object
    place: tuple[str, str, str]

    def __post_init__(self):
        self.before, self.after, self.written = self.place
        self.version = 1
        self.asked = {}  # by request id: text before and after the cursor

    @property
    def position(self):
        return self.before.count("\n"), len(self.before.rpartition("\n")[2])

    def type(self, text, taken=0):
        self.version += 1
        self.session.insert(URI, self.version, *self.position, text, taken=taken)
        self.before = self.before[: len(self.before) - taken] + text

    def key(self, kind, value):
        if kind == "along":
            at = len(self.before) - len(self.place[0])
            if self.before == self.place[0] + self.written[: max(at, 0)] and self.written[at : at + value]:
                self.type(self.written[at : at + value])
        elif kind == "astray":
            self.type(value)
        elif kind == "back":
            count = min(value, self.position[1])
            if count:
                self.type("", taken=count)

    def ask(self):
        self.asked[self.session.complete(URI, *self.position)] = (self.before, self.after)

    def apply(self, item):
        """The document, once the item is taken."""
        lines = (self.before + self.after).split("\n")
        start, end = item["range"]["start"], item["range"]["end"]
        assert start["line"] == end["line"] == self.position[0]
        assert start["character"] <= self.position[1] <= end["character"]
        line = lines[start["line"]]
        lines[start["line"]] = line[: start["character"]] + item["insertText"] + line[end["character"] :]
        return "\n".join(lines)


async def greedy(engine, before, after):
    """The documents that a fresh policy's answers would make."""
    question = Question(before + after, len(before), "python", URI)
    asking = asyncio.create_task(CompletionPolicy(engine).answer(question))
    while not asking.done():
        engine.allow(1)
        await asyncio.sleep(0)
    text = question.text
    items = asking.result().suggestions
    return [text[: item.start] + item.insert_text + text[item.end :] for item in items]


@pytest.fixture(scope="session")
def play(session_type, stepped):
    async def play(place, steps, finish, piece):
        engine = stepped(model(place), finish, piece)
        checked = set()

        async def load(_):
            return engine

        async def check():
            for message_id in set(editor.asked) - checked:
                (answer,) = session.responses(message_id) or [None]
                if answer is None:
                    continue
                checked.add(message_id)
                if answer["result"] is None:
                    continue
                explained = session.server.explanations.latest(URI)
                if explained.trace.get("cache_hit"):
                    continue
                fresh = await greedy(stepped(model(place), finish, piece), *editor.asked[message_id])
                items = answer["result"]["items"]
                if items or "deleted" not in explained.reason:
                    assert [editor.apply(item) for item in items] == fresh

        session = session_type(load, CompletionPolicy)
        await session.start()
        session.open(place[0] + place[1], URI)
        editor = Editor(session, place)
        try:
            for kind, value in steps:
                if kind == "ask":
                    editor.ask()
                elif kind == "turn":
                    for _ in range(value):
                        await asyncio.sleep(0)
                elif kind == "token":
                    engine.allow(value)
                else:
                    editor.key(kind, value)
                await check()
            for _ in range(300):
                engine.allow(1)
                await asyncio.sleep(0)
                await check()
            assert checked == set(editor.asked)
            assert all(len(session.responses(message_id)) == 1 for message_id in editor.asked)
            assert all(run.closed for run in engine.runs)
        finally:
            await session.server.close()
        return engine

    return play


def test_whatever_is_answered_is_what_a_fresh_run_would_give(play):
    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        st.sampled_from(PLACES),
        STEPS,
        st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]),
        st.integers(1, 5),
    )
    def check(place, steps, finish, piece):
        asyncio.run(play(place, steps, finish, piece))

    check()


async def test_a_request_at_every_key_needs_one_run(play):
    place = PLACES[1]
    steps = [("ask", 0), ("turn", 8)]
    for _ in range(6):
        steps += [("along", 1), ("ask", 0), ("token", 1), ("turn", 8)]
    assert len((await play(place, steps, FinishReason.STOP, 2)).runs) == 1


async def test_a_wrong_key_needs_another_run(play):
    steps = [("ask", 0), ("turn", 8), ("token", 1), ("astray", "q"), ("ask", 0), ("turn", 8)]
    assert len((await play(PLACES[1], steps, FinishReason.STOP, 2)).runs) == 2
