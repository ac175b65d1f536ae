"""The store against the naive mirror, over random texts and edits in all three encodings."""

from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lsprotocol import types as lsp

from lsp_server.documents import text_buffer
from lsp_server.documents.encoding import PositionEncoding
from lsp_server.documents.positions import offset_at, position_at
from lsp_server.documents.store import Documents
from lsp_server.documents.text_buffer import TextBuffer

URI = "file:///a"
PIECES = [
    "a", "b c", "\n", "\r", "\r\n", "\f", "\v", "\x1c", "\x1d", "\x85", "\u2028", "\u2029", "\ufeff", "\t",
    "\0", "é", "e\u0301", "漢字", "\U0001f600", "\U0001f468\u200d\U0001f469", "\U00010400",
    "\ud83d", "\ude00",
]  # fmt: skip
# As a JSON parser gives it: two halves in a row are one character; halves may still meet by an edit.
texts = (
    st.lists(st.sampled_from(PIECES), max_size=30)
    .map("".join)
    .map(lambda text: text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass"))
)
places = st.tuples(st.integers(0, 12), st.integers(0, 20) | st.just(2**31 - 1))
edits = st.tuples(places, places, texts)
encodings = st.sampled_from(list(PositionEncoding))
sized = st.sampled_from([3, 8, text_buffer.CHUNK_SIZE])
slow_machine = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def small_chunks():
    """Chunks of a few characters, so that short texts cross many borders."""

    def use(size: int):
        return patch.multiple(text_buffer, CHUNK_SIZE=size, _MERGE_BELOW=size // 4)

    return use


@slow_machine
@given(text=texts, changes=st.lists(edits, max_size=8), encoding=encodings, size=sized)
def test_edits_give_the_same_text(naive, small_chunks, text, changes, encoding, size):
    mirror = naive(text, encoding)
    with small_chunks(size):
        documents = Documents(encoding)
        documents.open(lsp.TextDocumentItem(URI, "python", 0, text))
        for version, (start, end, new) in enumerate(changes, 1):
            change = lsp.TextDocumentContentChangePartial(
                lsp.Range(lsp.Position(*start), lsp.Position(*end)), new
            )
            documents.change(URI, version, [change])
            mirror.replace(start, end, new)
            snapshot = documents.get(URI)
            assert snapshot is not None
            assert snapshot.buffer.text == mirror.text
            assert snapshot.buffer.line_count == len(mirror.lines())


@slow_machine
@given(text=texts, place=places, encoding=encodings, size=sized)
def test_positions_become_the_same_offsets(naive, small_chunks, text, place, encoding, size):
    with small_chunks(size):
        position = lsp.Position(*place)
        assert offset_at(TextBuffer.from_text(text), position, encoding) == naive(text, encoding).offset(
            *place
        )
        assert (position.line, position.character) == place  # the caller's object is as it was


@slow_machine
@given(text=texts, encoding=encodings, size=sized, data=st.data())
def test_offsets_become_the_same_positions_and_back(naive, small_chunks, text, encoding, size, data):
    offset = data.draw(st.integers(0, len(text)))
    with small_chunks(size):
        buffer = TextBuffer.from_text(text)
        position = position_at(buffer, offset, encoding)
        assert (position.line, position.character) == naive(text, encoding).position(offset)
        if text[offset - 1 : offset + 1] != "\r\n":
            assert offset_at(buffer, position, encoding) == offset


@slow_machine
@given(text=texts, changes=st.lists(edits, max_size=8), size=sized, data=st.data())
def test_older_versions_and_slices_stay_right(small_chunks, text, changes, size, data):
    with small_chunks(size):
        buffer = TextBuffer.from_text(text)
        for start, end, new in changes:
            before, kept = buffer, buffer.text
            low, high = sorted(
                offset_at(buffer, lsp.Position(*p), PositionEncoding.UTF16) for p in (start, end)
            )
            buffer = buffer.replace(low, high, new)
            before._text = None  # read the chunks again, not the kept join
            assert before.text == kept
        low = data.draw(st.integers(0, len(buffer)))
        high = data.draw(st.integers(low, len(buffer)))
        assert buffer.slice(low, high) == buffer.text[low:high]


@pytest.mark.parametrize("size", [3, 8])
def test_the_same_text_however_it_was_cut(small_chunks, size):
    text = "ab\r\ncd\r\r\n\n\U0001f600" * 9
    with small_chunks(size):
        cut = TextBuffer.from_text(text)
    whole = TextBuffer.from_text(text)
    assert len(cut._chunks) > len(whole._chunks) == 1
    for line in range(whole.line_count):
        assert cut.line_span(line) == whole.line_span(line)
