from lsprotocol import types as lsp

from lsp_server.documents.encoding import PositionEncoding
from lsp_server.documents.store import Documents

URI = "file:///a.py"


def opened(text, encoding=PositionEncoding.UTF16, uri=URI):
    documents = Documents(encoding)
    documents.open(lsp.TextDocumentItem(uri, "python", 1, text))
    return documents


def ranged(start, end, text):
    return lsp.TextDocumentContentChangePartial(lsp.Range(lsp.Position(*start), lsp.Position(*end)), text)


def text_of(documents, uri=URI):
    snapshot = documents.get(uri)
    assert snapshot is not None
    return snapshot.buffer.text


def test_several_changes_of_one_notice_build_on_each_other():
    documents = opened("abc\n")
    documents.change(
        URI, 2, [ranged((0, 0), (0, 1), "xyz"), ranged((0, 3), (1, 0), ""), ranged((0, 5), (0, 5), "!")]
    )
    assert text_of(documents) == "xyzbc!"[:3] + "!"


def test_a_whole_text_change_replaces_everything():
    documents = opened("old")
    documents.change(
        URI, 2, [ranged((0, 0), (0, 0), "x"), lsp.TextDocumentContentChangeWholeDocument("new\r\n")]
    )
    assert text_of(documents) == "new\r\n"


def test_a_reversed_range_means_the_same():
    documents = opened("abcd")
    documents.change(URI, 2, [ranged((0, 3), (0, 1), "-")])
    assert text_of(documents) == "a-d"


def test_snapshots_do_not_change():
    documents = opened("abc")
    before = documents.get(URI)
    documents.change(URI, 2, [ranged((0, 0), (0, 3), "")])
    assert before is not None
    assert (before.version, before.buffer.text) == (1, "abc")


def test_a_version_that_does_not_grow_is_noticed_and_whole_text_heals():
    documents = opened("abc")
    documents.change(URI, 5, [ranged((0, 0), (0, 0), "1")])
    snapshot = documents.change(URI, 5, [ranged((0, 0), (0, 0), "2")])
    assert snapshot is not None
    assert not snapshot.in_sync
    snapshot = documents.change(URI, 6, [ranged((0, 0), (0, 0), "3")])
    assert snapshot is not None
    assert not snapshot.in_sync  # the right order later does not make up for what was lost
    snapshot = documents.change(URI, 7, [lsp.TextDocumentContentChangeWholeDocument("abc")])
    assert snapshot is not None
    assert snapshot.in_sync


def test_versions_may_jump_ahead():
    snapshot = opened("abc").change(URI, 40, [ranged((0, 0), (0, 0), "1")])
    assert snapshot is not None
    assert snapshot.in_sync


def test_a_byte_order_mark_is_one_character_and_is_kept():
    documents = opened("\ufeffab")
    documents.change(URI, 2, [ranged((0, 1), (0, 2), "X")])
    assert text_of(documents) == "\ufeffXb"


def test_uris_are_kept_apart_as_they_are_spelled():
    documents = opened("one", uri="file:///a%20b")
    documents.open(lsp.TextDocumentItem("file:///a%2520b", "python", 1, "two"))
    assert text_of(documents, "file:///a%20b") == "one"


def test_changes_and_closes_of_unknown_documents_are_no_errors():
    documents = Documents()
    assert documents.change(URI, 1, []) is None
    assert documents.close(URI) is None
