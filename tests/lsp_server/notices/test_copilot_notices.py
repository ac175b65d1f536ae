import pytest

URI = "file:///w/a.py"


async def test_shown_and_partly_accepted_items_reach_the_policy(session):
    policy = await session.start()
    (item,) = await session.items(session.open("x = "), 0, 4)
    session.notify("textDocument/didShowCompletion", {"item": item})
    session.notify("textDocument/didPartiallyAcceptCompletion", {"item": item, "acceptedLength": 2})
    assert policy.calls == [("shown", "id0"), ("partially_accepted", "id0", 2)]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"item": {}},
        {"item": {"command": {"command": "other", "arguments": ["id0"]}}},
        {"item": {"command": {"command": "hearth.accepted", "arguments": [1]}}},
        {"item": {"command": {"command": "hearth.accepted", "arguments": ["id0"]}}, "acceptedLength": -1},
    ],
)
async def test_items_that_are_not_ours_are_ignored(session, params):
    policy = await session.start()
    session.notify("textDocument/didPartiallyAcceptCompletion", params)
    assert policy.calls == []


async def test_focus_with_a_position_warms_that_place(session):
    policy = await session.start()
    session.open("x = \ny")
    place = {"line": 0, "character": 4}
    session.notify("textDocument/didFocus", {"textDocument": {"uri": URI}, "position": place})
    await session.until(lambda: policy.warmed)
    assert (policy.warmed[0].offset, policy.warmed[0].invoked) == (4, False)


async def test_focus_without_a_position_warms_the_place_of_the_last_edit(session):
    policy = await session.start()
    session.open("x = \ny")
    session.insert(URI, 2, 1, 1, "zz")
    session.notify("textDocument/didFocus", {"textDocument": {"uri": URI}})
    await session.until(lambda: policy.warmed)
    assert policy.warmed[0].offset == len("x = \nyzz")


async def test_only_the_focused_document_is_warm(session):
    policy = await session.start()
    for name in ("a", "b"):
        session.open("x = ", f"file:///w/{name}.py")
        session.insert(f"file:///w/{name}.py", 2, 0, 4, name)
    session.notify("textDocument/didFocus", {"textDocument": {"uri": "file:///w/a.py"}})
    await session.until(lambda: len(policy.warmed) == 1)
    session.notify("textDocument/didFocus", {"textDocument": {"uri": "file:///w/b.py"}})
    await session.until(lambda: len(policy.warmed) == 2)
    session.notify("textDocument/didFocus", {})
    await session.until(lambda: len(policy.stopped) == 2)
    assert [question.text for question in policy.stopped] == ["x = a", "x = b"]


async def test_excluded_documents_are_never_warm_and_say_why_on_focus(session):
    policy = await session.start(options={"languages": {"python": False}})
    session.open("x = ")
    place = {"line": 0, "character": 4}
    session.notify("textDocument/didFocus", {"textDocument": {"uri": URI}, "position": place})
    assert session.notices("didChangeStatus")[-1]["kind"] == "Inactive"
    await session.result("workspace/executeCommand", {"command": "hearth.explain"})
    assert policy.warmed == []


async def test_focus_on_what_is_not_open_is_ignored(session):
    await session.start()
    session.notify("textDocument/didFocus", {"textDocument": {"uri": "file:///never"}})
    assert await session.items(session.open("x = "), 0, 4)


async def test_a_workspace_folder_added_later_gives_relative_paths(session):
    policy = await session.start()
    event = {"added": [{"uri": "file:///v%20w", "name": "v"}], "removed": [{"uri": "file:///w", "name": "w"}]}
    session.notify("workspace/didChangeWorkspaceFolders", {"event": event})
    await session.items(session.open("x = ", "file:///v%20w/s/a.py"), 0, 4)
    await session.items(session.open("x = ", "file:///w/a.py"), 0, 4)
    assert [question.path for question in policy.questions] == ["s/a.py", ""]


async def test_a_document_opened_twice_has_the_newer_text(session):
    policy = await session.start()
    session.open("x = ")
    session.open("long = ")
    await session.items(URI, 0, 7)
    assert policy.questions[0].text == "long = "
