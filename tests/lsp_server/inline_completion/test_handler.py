"""From request to `null`, `[]` or items, with a scripted policy."""

import asyncio

import pytest

from engine.errors import RequestError

EMPTY = {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 4}}


async def ask_and_hold(session, policy, uri, line=0, character=4, **extra):
    """A request whose answer waits for policy.gate."""
    policy.gate = asyncio.Event()
    policy.started.clear()
    message_id = session.complete(uri, line, character, **extra)
    await session.until(policy.started.is_set)
    return message_id


async def test_an_item_carries_text_range_and_the_accept_command(session):
    await session.start()
    (item,) = await session.items(session.open("x = \n"), 0, 4)
    assert item == {
        "insertText": "ghost",
        "range": EMPTY,
        "command": {"title": "Suggestion accepted", "command": "hearth.accepted", "arguments": ["id0"]},
    }


async def test_automatic_gives_one_item_and_invoked_several(session):
    policy = await session.start(options={"suggestions": 2})
    policy.insert = ["a", "b", "c"]
    uri = session.open("x = \n")
    assert [item["insertText"] for item in await session.items(uri, 0, 4)] == ["a"]
    assert [item["insertText"] for item in await session.items(uri, 0, 4, invoked=True)] == ["a", "b"]
    assert [question.invoked for question in policy.questions] == [False, True]
    assert policy.questions[1].count == 2


async def test_an_honest_nothing_is_an_empty_list(session):
    policy = await session.start()
    policy.insert = []
    assert await session.items(session.open("x = "), 0, 4) == []


async def test_a_newer_request_makes_the_older_null_and_stops_its_engine_work(session):
    policy = await session.start()
    uri = session.open("x = ")
    older = await ask_and_hold(session, policy, uri)
    newer = session.complete(uri, 0, 4)
    policy.gate.set()
    assert (await session.response(older))["result"] is None
    assert (await session.response(newer))["result"]["items"]
    assert len(policy.stopped) == 1


async def test_the_clients_cancel_is_answered_at_once_and_stops_the_engine(session):
    policy = await session.start()
    message_id = await ask_and_hold(session, policy, session.open("x = "))
    session.notify("$/cancelRequest", {"id": message_id})
    (answer,) = session.responses(message_id)  # before the loop had any turn
    assert answer["error"]["code"] == -32800
    await session.until(lambda: policy.stopped)
    assert len(session.responses(message_id)) == 1


async def test_a_change_is_applied_while_the_engine_works(session):
    policy = await session.start()
    uri = session.open("x = ")
    message_id = await ask_and_hold(session, policy, uri)
    session.insert(uri, 2, 0, 4, "g")
    assert session.server.documents.get(uri).buffer.text == "x = g"  # at once, within `notify`
    assert not session.responses(message_id)
    policy.gate.set()
    await session.response(message_id)


async def test_the_question_is_about_the_text_when_the_request_came(session):
    policy = await session.start()
    uri = session.open("x = ")
    message_id = session.complete(uri, 0, 4)
    session.insert(uri, 2, 0, 0, "changed ")
    await session.response(message_id)
    assert policy.questions[0].text == "x = "


async def test_what_was_typed_meanwhile_and_agrees_widens_the_range(session):
    policy = await session.start()
    uri = session.open("x = \ny")
    message_id = await ask_and_hold(session, policy, uri)
    session.insert(uri, 2, 0, 4, "gh")
    policy.gate.set()
    (item,) = (await session.response(message_id))["result"]["items"]
    assert item["insertText"] == "ghost"
    assert item["range"] == {"start": EMPTY["start"], "end": {"line": 0, "character": 6}}


@pytest.mark.parametrize(
    ("line", "character", "text"),
    [(0, 4, "other"), (0, 0, "g"), (1, 0, "g"), (0, 4, "ghost\n"), (0, 4, "ghosts")],
)
async def test_an_answer_that_no_longer_agrees_is_null(session, line, character, text):
    policy = await session.start()
    uri = session.open("x = \ny")
    message_id = await ask_and_hold(session, policy, uri)
    session.insert(uri, 2, line, character, text)
    policy.gate.set()
    assert (await session.response(message_id))["result"] is None


@pytest.mark.parametrize("turns", range(8))
async def test_a_key_between_the_answer_and_its_way_out_is_not_overlooked(session, turns):
    policy = await session.start()
    uri = session.open("x = ")
    message_id = await ask_and_hold(session, policy, uri)
    policy.gate.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    sent = session.responses(message_id)
    session.insert(uri, 2, 0, 4, "gh")
    (item,) = (await session.response(message_id))["result"]["items"]
    assert item["range"]["end"]["character"] == (4 if sent else 6)


async def test_nothing_for_an_old_version_is_null_and_hides_no_newer_ghost(session):
    policy = await session.start()
    policy.insert = []
    uri = session.open("x = ")
    message_id = await ask_and_hold(session, policy, uri)
    session.insert(uri, 2, 0, 4, "g")
    policy.gate.set()
    assert (await session.response(message_id))["result"] is None


async def test_a_version_that_we_do_not_have_is_null(session):
    await session.start()
    uri = session.open("x = ", version=3)
    assert await session.items(uri, 0, 4, textDocument={"uri": uri, "version": 4}) is None
    assert await session.items(uri, 0, 4, textDocument={"uri": uri, "version": 3})


@pytest.mark.parametrize("notice", ["didClose", "rename"])
async def test_closing_or_renaming_answers_null_and_forgets(session, notice):
    policy = await session.start()
    uri = session.open("x = ")
    message_id = await ask_and_hold(session, policy, uri)
    if notice == "didClose":
        session.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    else:
        session.notify("workspace/didRenameFiles", {"files": [{"oldUri": uri, "newUri": uri + "x"}]})
    assert (await session.response(message_id))["result"] is None
    await session.until(lambda: policy.stopped)
    assert ("forget", uri) in policy.calls


@pytest.mark.parametrize("error", [RequestError("too long"), ValueError("boom"), RecursionError()])
async def test_failures_are_an_empty_list_and_a_status_never_an_error(session, error):
    policy = await session.start()
    policy.error = error
    uri = session.open("x = ")
    assert await session.items(uri, 0, 4) == []
    status = session.notices("didChangeStatus")[-1]
    assert status["kind"] in ("Warning", "Error")
    assert status["busy"] is False
    assert "boom" not in status["message"]
    policy.error = None
    assert await session.items(uri, 0, 4)
    assert session.notices("didChangeStatus")[-1] == {"busy": False, "message": "", "kind": "Normal"}


async def test_busy_ends_however_the_work_ends(session):
    policy = await session.start()
    message_id = await ask_and_hold(session, policy, session.open("x = "))
    await session.until(lambda: session.notices("didChangeStatus")[-1]["busy"] is True)
    session.notify("$/cancelRequest", {"id": message_id})
    await session.until(lambda: session.notices("didChangeStatus")[-1]["busy"] is False)


async def test_no_carriage_return_is_ever_inserted(session):
    policy = await session.start()
    policy.insert = ["a\r\nb\rc"]
    (item,) = await session.items(session.open("x = \r\n"), 0, 4)
    assert item["insertText"] == "a\nb\nc"


@pytest.mark.parametrize("before", [-3, 5])
async def test_a_range_off_the_cursors_line_is_dropped(session, before):
    policy = await session.start()
    policy.replace_before = before
    assert await session.items(session.open("y\nx = \nz"), 1, 4) == []


@pytest.mark.parametrize(
    ("encoding", "cursor", "start"), [("utf-8", 10, 7), ("utf-16", 5, 4), ("utf-32", 4, 3), (None, 5, 4)]
)
async def test_positions_are_in_the_clients_units(session, encoding, cursor, start):
    policy = await session.start({"general": {"positionEncodings": [encoding] if encoding else []}})
    policy.replace_before = 1
    uri = session.open("s\n\U0001f600x\u00e9\u6f22")  # 4+1+2+3 bytes, 2+1+1+1 units, 4 characters
    (item,) = await session.items(uri, 1, cursor)
    assert policy.questions[0].offset == 6
    assert item["range"] == {
        "start": {"line": 1, "character": start},
        "end": {"line": 1, "character": cursor},
    }


async def test_a_byte_order_mark_is_not_shown_to_the_model(session):
    policy = await session.start()
    uri = session.open("\ufeffx = ")
    (item,) = await session.items(uri, 0, 5)
    assert (policy.questions[0].text, policy.questions[0].offset) == ("x = ", 4)
    assert item["range"]["start"] == {"line": 0, "character": 5}
    (item,) = await session.items(uri, 0, 0)
    assert item["range"]["start"] == {"line": 0, "character": 1}  # never before the mark


async def test_half_a_character_reaches_neither_the_policy_nor_breaks_the_server(session):
    policy = await session.start()
    uri = session.open("x = \ud83d")
    assert await session.items(uri, 0, 4)
    assert policy.questions[0].text == "x = \ufffd"


async def test_the_entry_of_the_completion_list_is_passed_on(session):
    policy = await session.start()
    uri = session.open("\U0001f600.ap")
    word = {"start": {"line": 0, "character": 3}, "end": {"line": 0, "character": 5}}
    context = {"triggerKind": 2, "selectedCompletionInfo": {"range": word, "text": "append"}}
    await session.items(uri, 0, 5, context=context)
    selected = policy.questions[0].selected
    assert (selected.start, selected.end, selected.text) == (2, 4, "append")


async def test_settings_reach_the_question(session):
    policy = await session.start(options={"mode": "single", "maxTokens": 17})
    await session.items(session.open("x = ", "file:///w/sub/a.py"), 0, 4)
    question = policy.questions[0]
    assert (question.mode, question.max_tokens, question.path) == ("single", 17, "sub/a.py")


@pytest.mark.parametrize(
    ("options", "text", "said"),
    [
        ({"enabled": False}, "x", "hearth.enabled"),
        ({"languages": {"python": False}}, "x", "hearth.languages"),
        ({"exclude": ["*.py"]}, "x", "hearth.exclude"),
        ({"exclude": ["sub/**"]}, "x", "hearth.exclude"),
        ({"exclude": ["**/a.py"]}, "x", "hearth.exclude"),
        ({"maxFileBytes": 3}, "éé", "hearth.maxFileBytes"),
        ({}, "x\0y", "binary"),
    ],
)
async def test_excluded_files_get_an_empty_list_and_say_why(session, options, text, said):
    policy = await session.start(options=options)
    uri = session.open(text, "file:///w/sub/a.py")
    assert await session.items(uri, 0, 0, invoked=True) == []
    assert policy.questions == []
    status = session.notices("didChangeStatus")[-1]
    assert status["kind"] == "Inactive"
    assert said in status["message"]
    explained = await session.result(
        "workspace/executeCommand", {"command": "hearth.explain", "arguments": [uri]}
    )
    assert said in explained["text"]


@pytest.mark.parametrize("pattern", ["*.txt", "other/**", "a.py/x", "sub/*/a.py"])
async def test_patterns_exclude_no_more_than_they_say(session, pattern):
    await session.start(options={"exclude": [pattern]})
    assert await session.items(session.open("x = ", "file:///w/sub/a.py"), 0, 4)


async def test_a_document_out_of_sync_gets_nothing_until_its_whole_text_came(session):
    await session.start()
    uri = session.open("x = ", version=5)
    session.insert(uri, 5, 0, 4, "1")
    assert await session.items(uri, 0, 4) == []
    assert "out of order" in session.notices("didChangeStatus")[-1]["message"]
    whole = {"textDocument": {"uri": uri, "version": 6}, "contentChanges": [{"text": "y = "}]}
    session.notify("textDocument/didChange", whole)
    assert await session.items(uri, 0, 4)


async def test_a_debounced_request_that_is_superseded_asks_nothing(session):
    policy = await session.start(options={"debounceMs": 10_000})
    uri = session.open("x = ")
    automatic = session.complete(uri, 0, 4)
    await asyncio.sleep(0)
    assert await session.items(uri, 0, 4, invoked=True)
    assert (await session.response(automatic))["result"] is None
    assert len(policy.questions) == 1
