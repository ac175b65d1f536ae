"""What must hold for any document, cursor and model text."""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.types import FinishReason
from lsp_server.inline_completion.policy import CompletionPolicy, Question
from lsp_server.inline_completion.policy.brackets import unclosed
from lsp_server.inline_completion.policy.languages import language
from lsp_server.inline_completion.policy.lexer import PAIRS, scan

LANGUAGES = ["python", "typescript", "javascript", "rust", "json", "markdown", "java", "shellscript", "other"]
PUNCTUATION = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "`",
    '"""',
    "\\",
    "/",
    "#",
    "//",
    "/*",
    "*/",
    ":",
    ";",
    ",",
]
BLANKS = [" ", "  ", "    ", "\t", "\n", "\r\n", "\r", "\n\n", "\f", "\u2028"]
WHOLE = ["a", "foo", "return x", "if x:", "def f(x):", "else {", "x => x", "x = 1", "```\n", "<|fim_pad|>"]
UNICODE = ["é", "你好", "😀", "e\u0301", "\ud800"]
PIECES = st.sampled_from([*PUNCTUATION, *BLANKS, *WHOLE, *UNICODE])
TEXTS = st.lists(PIECES, max_size=14).map("".join)
PROPERTIES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LINE_ENDS = ("\n", "\r")


def answer(scripted_engine, question):
    return asyncio.run(CompletionPolicy(scripted_engine).answer(question))


@st.composite
def questions(draw, **fixed):
    before, after = draw(TEXTS), draw(TEXTS)
    return Question(
        text=before + after,
        offset=len(before),
        language_id=draw(st.sampled_from(LANGUAGES)),
        uri="file:///a",
        invoked=draw(st.booleans()),
        mode=draw(st.sampled_from(["auto", "single", "multi"])),
        count=draw(st.integers(1, 2)),
        **fixed,
    )


def test_suggestions_are_safe_to_apply(scripted):
    @PROPERTIES
    @given(questions(), TEXTS, st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]))
    def check(question, model, finish):
        for item in answer(scripted(model, finish=finish), question).suggestions:
            assert "\r" not in item.insert_text
            assert item.insert_text.strip()
            assert 0 <= item.start <= question.offset <= item.end <= len(question.text)
            replaced = question.text[item.start : item.end]
            assert not any(end in replaced for end in LINE_ENDS)
            # What is replaced comes back: no text of the user's is lost.
            position = 0
            for character in replaced:
                position = item.insert_text.index(character, position) + 1

    check()


def test_single_mode_gives_one_line(scripted):
    @PROPERTIES
    @given(questions(), TEXTS)
    def check(question, model):
        single = Question(**{**vars(question), "mode": "single"})
        for item in answer(scripted(model), single).suggestions:
            assert "\n" not in item.insert_text

    check()


def test_line_ends_of_the_document_make_no_difference(scripted):
    @PROPERTIES
    @given(questions(), TEXTS, st.sampled_from(["\r\n", "\r"]))
    def check(question, model, line_end):
        before = question.text[: question.offset].replace("\r\n", "\n").replace("\r", "\n")
        after = question.text[question.offset :].replace("\r\n", "\n").replace("\r", "\n")
        plain = Question(**{**vars(question), "text": before + after, "offset": len(before)})
        start = before.replace("\n", line_end)
        twin = Question(
            **{**vars(question), "text": start + after.replace("\n", line_end), "offset": len(start)}
        )
        expected, found = answer(scripted(model), plain), answer(scripted(model), twin)
        assert [item.insert_text for item in found.suggestions] == [
            item.insert_text for item in expected.suggestions
        ]
        assert [item.end - item.start for item in found.suggestions] == [
            item.end - item.start for item in expected.suggestions
        ]
        assert found.reason == expected.reason

    check()


CALLS = st.recursive(
    st.sampled_from(["a", "b1", '"text"', "'(['", "7"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"f({', '.join(items)})"),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        inner.map(lambda item: f"xs[{item}]"),
    ),
    max_leaves=8,
)


def test_auto_closed_brackets_never_double(scripted):
    """The document is what an editor with auto-close holds after the user typed a part of an expression."""

    @PROPERTIES
    @given(CALLS, st.sampled_from(["python", "typescript", "java"]), st.sampled_from(["", ";"]), st.data())
    def check(expression, language_id, end, data):
        typed = data.draw(st.integers(0, len(expression) - 1))
        found = scan(expression[:typed], language(language_id))
        quote = found.state
        closers = quote + "".join(PAIRS[mark.text] for mark in reversed(unclosed(found.brackets)))
        before = "x = " + expression[:typed]
        question = Question(
            f"{before}{closers}{end}\n", len(before), language_id, "file:///a", invoked=True, count=1
        )
        result = answer(scripted(expression[typed:] + end), question)
        if not result.suggestions:
            # Only what stands there already was left to write.
            assert expression[typed:] == closers
            return
        (item,) = result.suggestions
        applied = question.text[: item.start] + item.insert_text + question.text[item.end :]
        assert applied == f"x = {expression}{end}\n"

    check()


WORDS = st.lists(st.sampled_from(["alpha", "beta1", "gamma", "delta"]), min_size=1, max_size=4, unique=True)


def test_nothing_is_trimmed_without_an_overlap(scripted):
    @PROPERTIES
    @given(
        WORDS, st.sampled_from([" + ", ", ", " and "]), st.sampled_from(["", "epsilon = 5\n", "zeta(6)\n"])
    )
    def check(words, joint, below):
        model = joint.join(words)
        question = Question(f"value = \n{below}", len("value = "), "python", "file:///a")
        (item,) = answer(scripted(model), question).suggestions
        assert item.insert_text == model

    check()


def test_typed_through_answers_equal_fresh_ones(scripted):
    @PROPERTIES
    @given(WORDS, st.data())
    def check(words, data):
        target = "value = " + " + ".join(words)

        def reply(request):
            return target[len(request.prefix) :] + "\nmore\n"

        start = len("value = ")
        typed = data.draw(st.integers(start, len(target) - 1))

        def at(offset):
            return Question(target[:offset] + "\n", offset, "python", "file:///a")

        async def both():
            warm = CompletionPolicy(scripted(reply=reply))
            await warm.answer(at(start))
            fresh = CompletionPolicy(scripted(reply=reply))
            return await warm.answer(at(typed)), await fresh.answer(at(typed))

        through, fresh = asyncio.run(both())
        assert through.trace["cache_hit"] is True
        (left,), (right,) = through.suggestions, fresh.suggestions
        assert (left.insert_text.strip(), left.start, left.end) == (
            right.insert_text.strip(),
            right.start,
            right.end,
        )

    check()
