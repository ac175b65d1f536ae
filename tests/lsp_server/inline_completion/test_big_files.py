"""A key costs the same in a file of any size: counted in characters looked at, not in time."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types as lsp

from lsp_server.documents import text_buffer
from lsp_server.documents.encoding import PositionEncoding
from lsp_server.documents.store import Documents
from lsp_server.inline_completion import question as question_module
from lsp_server.inline_completion.policy import (
    SIGHT_AFTER,
    SIGHT_BEFORE,
    CompletionPolicy,
    Question,
    line_ends,
)
from lsp_server.inline_completion.question import Place
from lsp_server.settings import Settings

LINE = "def function(argument): return argument\r\n"
URI = "file:///w/a.py"


@pytest.fixture
def looked_at(monkeypatch):
    """How many characters of documents were copied or scanned, as a list of counts."""
    counts = []
    piece_text = text_buffer.Piece.text.fget
    begin = text_buffer.Chunk.__init__

    def counted_text(piece):
        counts.append(piece.end - piece.start)
        return piece_text(piece)

    def counted_chunk(chunk, text):
        counts.append(len(text))
        begin(chunk, text)

    def whole(buffer):
        raise AssertionError("a whole document was joined")

    monkeypatch.setattr(text_buffer.Piece, "text", property(counted_text))
    monkeypatch.setattr(text_buffer.Chunk, "__init__", counted_chunk)
    monkeypatch.setattr(text_buffer.TextBuffer, "text", property(whole))
    return counts


@pytest.mark.parametrize("megabytes", [1, 20])
async def test_a_key_looks_at_the_text_near_the_cursor_only(session, looked_at, megabytes):
    policy = await session.start(options={"maxFileBytes": 10**9})
    lines = megabytes * 1_000_000 // len(LINE)
    uri = session.open(LINE * lines, URI)
    middle = lines // 2
    session.insert(uri, 2, middle, 0, "g")
    await session.items(uri, middle, 1)  # what is computed once is now known
    policy.gate = asyncio.Event()
    looked_at.clear()
    session.insert(uri, 3, middle, 1, "h")
    message_id = session.complete(uri, middle, 2)
    await session.until(lambda: len(policy.questions) == 2)
    session.insert(uri, 4, middle, 2, "gh")  # the answer is moved along this
    policy.gate.set()
    (item,) = (await session.response(message_id))["result"]["items"]
    assert item["range"]["end"] == {"line": middle, "character": 4}
    assert len(policy.questions[1].text) <= SIGHT_BEFORE + SIGHT_AFTER
    assert sum(looked_at) < 6 * (SIGHT_BEFORE + SIGHT_AFTER)


@pytest.mark.parametrize(("start", "items"), [(SIGHT_BEFORE + 9, 1), (2, 0)])
async def test_an_entry_of_the_completion_list_out_of_sight_is_not_taken_for_another(
    session_type, stepped, start, items
):
    async def load(_):
        return engine

    engine = stepped("(xs)\n")
    session = session_type(load, CompletionPolicy)
    await session.start()
    cursor = SIGHT_BEFORE + 12
    uri = session.open("y" * cursor)
    word = {"start": {"line": 0, "character": start}, "end": {"line": 0, "character": cursor}}
    context = {"triggerKind": 2, "selectedCompletionInfo": {"range": word, "text": "yyyyyy"}}
    message_id = session.complete(uri, 0, cursor, context=context)
    await session.until(lambda: engine.runs or session.responses(message_id))
    engine.allow(9)
    found = (await session.response(message_id))["result"]["items"]
    assert [item["range"] for item in found] == [word] * items
    await session.server.close()


PIECES = ["\r\n", "\r\n", "\r", "\n", "a", "bcd ", "\U0001f600"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=120).map("".join)
# Where, how many characters go, what comes.
EDITS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2), st.text("ab\r\n", max_size=2)))


@pytest.fixture
def small(monkeypatch):
    """All distances a hundredth of what they are, and chunks as small."""
    monkeypatch.setattr(line_ends, "PREFIX_LIMIT", 24)
    monkeypatch.setattr(line_ends, "SUFFIX_LIMIT", 8)
    monkeypatch.setattr(line_ends, "PREFIX_STEP", 8)
    monkeypatch.setattr(question_module, "SIGHT_BEFORE", 50)
    monkeypatch.setattr(question_module, "SIGHT_AFTER", 18)
    monkeypatch.setattr(text_buffer, "CHUNK_SIZE", 16)
    monkeypatch.setattr(text_buffer, "_MERGE_BELOW", 4)


def opened(text):
    return Documents(PositionEncoding.UTF32).open(lsp.TextDocumentItem(URI, "python", 1, text))


def test_the_model_sees_the_same_as_if_the_whole_document_were_given(small):
    @settings(deadline=None, max_examples=200)
    @given(st.sampled_from(["", "\ufeff"]), TEXTS, TEXTS)
    def check(bom, before, after):
        snapshot = opened(bom + before + after)
        place = Place(snapshot, len(bom + before), PositionEncoding.UTF32)
        if line_ends.inside_line_end(before + after, len(before)):
            return
        whole = Question(before + after, len(before), "python", URI)
        near = place.question(Settings(), "")
        assert line_ends.surroundings(near) == line_ends.surroundings(whole)
        assert len(near.text) <= 68

    check()


def test_what_was_typed_since_is_the_same_as_by_comparing_everything(small):
    @settings(deadline=None, max_examples=300)
    @given(TEXTS, TEXTS, EDITS)
    def check(before, after, edits):
        snapshot = opened(before + after)
        place = Place(snapshot, len(before), PositionEncoding.UTF32)
        text, buffer = before + after, snapshot.buffer
        for at, taken, new in [(len(before), 0, "x"), *edits]:
            start, end = min(at, len(text)), min(at + taken, len(text))
            buffer = buffer.replace(start, end, new)
            text = text[:start] + new + text[end:]
            grown = len(text) - len(before + after)
            typed = text[len(before) : len(before) + grown] if grown >= 0 else None
            if typed is not None and (text != before + typed + after or "\n" in typed or "\r" in typed):
                typed = None
            assert place.typed_since(replace(snapshot, buffer=buffer)) == typed

    check()
