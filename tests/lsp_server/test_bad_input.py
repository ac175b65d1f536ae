"""Files and positions as they come in real life: each is answered, loses nothing and breaks nothing."""

import asyncio

import pytest

URI = "file:///w/a.py"
TEXTS = {
    "empty": "",
    "only line ends": "\n\r\n\r",
    "CRLF": "def f():\r\n    return 1\r\n",
    "form feed": "a\n\f\nb\n",
    "line separator": "a\u2028b\u2029c\x85d\n",
    "emoji": "s = '\U0001f468\u200d\U0001f469\u200d\U0001f467'\n",
    "CJK": "名前 = '漢字'\n",
    "combining": "e\u0301e\u0301 = 1\n",
    "right to left": "\u05d0\u05d1\u202e = 1\n",
}
PLACES = [(0, 0), (0, 3), (0, 2**31 - 1), (1, 0), (99, 0), (2**31 - 1, 2**31 - 1)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_every_place_of_every_text_is_answered_within_its_line(session, text, encoding):
    policy = await session.start({"general": {"positionEncodings": [encoding]}})
    uri = session.open(text)
    for line, character in PLACES:
        (item,) = await session.items(uri, line, character)
        question = policy.questions[-1]
        assert question.text == text
        assert 0 <= question.offset <= len(text)
        assert item["range"]["start"] == item["range"]["end"]
        # The place answered is the place asked about, clamped: asking there again changes nothing.
        place = item["range"]["start"]
        assert (await session.items(uri, place["line"], place["character"]))[0]["range"]["start"] == place
        assert policy.questions[-1].offset == question.offset


async def test_an_empty_last_line_is_completed_there(session):
    policy = await session.start()
    (item,) = await session.items(session.open("def f():\n"), 1, 0)
    assert item["range"]["start"] == {"line": 1, "character": 0}
    assert policy.questions[0].offset == len("def f():\n")


async def test_crlf_and_lf_twins_get_the_same_item(session):
    await session.start()
    items = [await session.items(session.open(text, f"file:///{n}"), 1, 4)
             for n, text in enumerate(("a\n    b\n", "a\r\n    b\r\n"))]  # fmt: skip
    assert items[0] == items[1]


async def test_twenty_megabytes_are_mirrored_exactly_and_left_alone(session):
    policy = await session.start()
    line = "x = 1  # a line\n"
    uri = session.open(line * 1_310_720)
    session.insert(uri, 2, 700_000, 4, "4")
    buffer = session.server.documents.get(uri).buffer
    assert len(buffer) == len(line) * 1_310_720 + 1
    assert buffer.slice(*buffer.line_span(700_000)) == "x = 41  # a line"
    assert await session.items(uri, 700_000, 5) == []
    assert policy.questions == []
    assert "hearth.maxFileBytes" in session.notices("didChangeStatus")[-1]["message"]


async def test_one_line_of_two_megabytes_is_edited_and_completed(session):
    policy = await session.start(options={"maxFileBytes": 10_000_000})
    uri = session.open("é" * 2_000_000)
    session.insert(uri, 2, 0, 1_000_000, "X")
    (item,) = await session.items(uri, 0, 1_000_001)
    offset = policy.questions[0].offset
    assert policy.questions[0].text[offset - 2 : offset + 1] == "éXé"
    assert item["range"]["start"] == {"line": 0, "character": 1_000_001}


async def test_an_unopened_file_in_another_encoding_is_not_read(session, tmp_path):
    """Stock pygls reads it from disk as UTF-8 and fails; the editor's text is the only one we trust."""
    file = tmp_path / "latin.py"
    file.write_bytes("s = 'é'\n".encode("latin-1"))
    policy = await session.start()
    assert await session.items(file.as_uri(), 0, 0) == []
    assert policy.questions == []


@pytest.mark.parametrize(
    "uri", ["untitled:Untitled-1", "git:/a.py?x", "", "file://[bad", "not a uri", "file:///"]
)
async def test_documents_with_any_uri_are_served(session, uri):
    policy = await session.start()
    session.open("x = ", uri)
    assert await session.items(uri, 0, 4)
    assert policy.questions[0].path == ""


@pytest.mark.parametrize(
    "change",
    [
        {"range": {"start": {"line": 0, "character": 1.5}, "end": {"line": 0, "character": 2}}, "text": "x"},
        {"range": {"start": {"line": -1, "character": 0}, "end": {"line": 0, "character": 0}}, "text": "x"},
        {"text": 5},
        None,
    ],
    ids=["half a unit", "a negative line", "a number for text", "nothing"],
)
async def test_an_edit_that_cannot_be_read_ends_completions_until_the_whole_text_comes(session, change):
    """The editor made the edit and the mirror did not: an item for the mirror would be wrong text."""
    policy = await session.start()
    uri = session.open("x = ")
    session.notify(
        "textDocument/didChange",
        {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [change]},
    )
    session.insert(uri, 3, 0, 4, "y")
    assert await session.items(uri, 0, 5) == []
    assert policy.questions == []
    session.notify(
        "textDocument/didChange",
        {"textDocument": {"uri": uri, "version": 4}, "contentChanges": [{"text": "x = "}]},
    )
    assert await session.items(uri, 0, 4)


async def test_an_edit_without_a_usable_version_ends_completions_too(session):
    await session.start()
    uri = session.open("x = ")
    params = {"textDocument": {"uri": uri, "version": None}, "contentChanges": [{"text": "y = "}]}
    session.notify("textDocument/didChange", params)
    assert await session.items(uri, 0, 4) == []


async def test_a_document_opened_anew_with_unreadable_text_gets_nothing(session):
    await session.start()
    uri = session.open("x = ")
    session.notify("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "python", "text": 1}})
    assert await session.items(uri, 0, 4) == []


async def test_an_edit_that_was_lost_while_the_model_wrote_makes_the_answer_stale(session):
    policy = await session.start()
    policy.gate = asyncio.Event()
    uri = session.open("x = ")
    number = session.complete(uri, 0, 4)
    await policy.started.wait()
    session.notify("textDocument/didChange", {"textDocument": {"uri": uri}, "contentChanges": [{}]})
    policy.gate.set()
    assert (await session.response(number))["result"] is None


@pytest.mark.parametrize("params", [None, [], {}, {"textDocument": 1}, {"textDocument": {"uri": []}}])
async def test_a_lost_edit_of_no_known_document_harms_none(session, params):
    await session.start()
    uri = session.open("x = ")
    session.notify("textDocument/didChange", params)
    assert await session.items(uri, 0, 4)


async def test_a_message_that_is_not_json_may_have_been_an_edit_of_any_document(session):
    await session.start()
    uris = [session.open("x = ", f"file:///{n}") for n in range(2)]
    session.send(b'{"jsonrpc": "2.0", "method": "textDocument/didChange", "par')
    assert [await session.items(uri, 0, 4) for uri in uris] == [[], []]
