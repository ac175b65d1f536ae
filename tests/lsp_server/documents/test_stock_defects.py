"""Positions that a stock pygls 2.1 workspace gets wrong: shown there, right here."""

import pytest
from lsprotocol import types as lsp
from pygls.workspace import PositionCodec, TextDocument

from lsp_server.documents.encoding import PositionEncoding
from lsp_server.documents.positions import offset_at, position_at
from lsp_server.documents.store import Documents
from lsp_server.documents.text_buffer import TextBuffer

URI = "file:///a"


def edited_by_stock(text, line, character, new):
    document = TextDocument(URI, text, 1, "c")
    place = lsp.Position(line, character)
    document.apply_change(lsp.TextDocumentContentChangePartial(lsp.Range(place, place), new))
    return document.source


def edited_by_us(text, line, character, new):
    documents = Documents(PositionEncoding.UTF16)
    documents.open(lsp.TextDocumentItem(URI, "c", 1, text))
    place = lsp.Position(line, character)
    snapshot = documents.change(URI, 2, [lsp.TextDocumentContentChangePartial(lsp.Range(place, place), new)])
    assert snapshot is not None
    return snapshot.buffer.text


@pytest.mark.parametrize("char", ["\f", "\v", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_1_only_lf_crlf_and_cr_end_a_line(char):
    text = f"a\n{char}b\nc"
    assert edited_by_stock(text, 2, 0, "X") != f"a\n{char}b\nXc"
    assert edited_by_us(text, 2, 0, "X") == f"a\n{char}b\nXc"


def test_2_a_column_past_the_end_of_the_last_line_means_its_end():
    assert edited_by_stock("abc", 0, 99, "X") == "abXc"
    assert edited_by_us("abc", 0, 99, "X") == "abcX"


def test_2_the_callers_position_is_not_changed():
    stock = lsp.Position(0, 99)
    PositionCodec(lsp.PositionEncodingKind.Utf16).position_from_client_units(["abc"], stock)
    assert stock != lsp.Position(0, 99)
    ours = lsp.Position(0, 99)
    offset_at(TextBuffer.from_text("abc"), ours, PositionEncoding.UTF16)
    assert ours == lsp.Position(0, 99)


def test_2_a_position_past_the_last_line_is_the_end_in_code_points():
    text = "\U0001f600\U0001f600"
    assert offset_at(TextBuffer.from_text(text), lsp.Position(7, 3), PositionEncoding.UTF16) == 2


def test_3_an_empty_last_line_is_a_place_of_its_own():
    codec = PositionCodec(lsp.PositionEncodingKind.Utf16)
    assert codec.position_from_client_units(["abc\n"], lsp.Position(1, 0)).line == 0
    buffer = TextBuffer.from_text("abc\n")
    assert offset_at(buffer, lsp.Position(1, 0), PositionEncoding.UTF16) == 4
    assert position_at(buffer, 4, PositionEncoding.UTF16) == lsp.Position(1, 0)


@pytest.mark.parametrize(
    ("text", "chunks"),
    [("x = 1  # a line\n" * 1_310_720, 1280), ("é" * 2_000_000, 122), ("x" * 2_000_000 + "\n", 122)],
    ids=["20 MB", "one 2 MB line, not ASCII", "one 2 MB line"],
)
def test_4_a_keystroke_copies_one_chunk_and_shares_the_rest(text, chunks):
    """The cost of a key is bounded by the chunk, whatever the size of file or line (stock: 0.2 to 1.8 s)."""
    before = TextBuffer.from_text(text)
    middle = offset_at(before, lsp.Position(0, 1_000_000), PositionEncoding.UTF16)
    after = before.replace(middle, middle, "k")
    fresh = set(after._chunks) - set(before._chunks)
    assert len(before._chunks) >= chunks
    assert len(fresh) == 1
    assert after.line_at(middle) == before.line_at(middle)
    # The line tables of untouched chunks are not built: neither edit nor position looked at them.
    assert sum(chunk._ends is not None for chunk in {*after._chunks, *before._chunks}) <= 4


def test_12_text_of_an_open_document_is_the_editors_bytes_for_bytes():
    text = "a\r\nb\rc\n"
    assert edited_by_us(text, 0, 0, "") == text
