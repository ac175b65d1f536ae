"""Exactly one response per request, whatever comes in."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


async def test_invalid_json_gets_the_parse_error_and_the_server_lives(session):
    await session.start()
    for body in (b"{", b"\xff\xfe", b"[" * 100_000, b"", b"nul"):
        session.sent.clear()
        session.send(body)
        (answer,) = session.sent
        assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert await session.items(session.open("x = "), 0, 4)


@pytest.mark.parametrize(
    ("message", "answered_id"),
    [
        ([], None),
        (3, None),
        ({"id": 1, "method": "shutdown"}, 1),
        ({"jsonrpc": "1.0", "id": 1, "method": "shutdown"}, 1),
        ({"jsonrpc": "2.0", "id": None, "method": "shutdown"}, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "shutdown"}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "shutdown"}, None),
        ({"jsonrpc": "2.0", "id": 7, "method": 5}, 7),
    ],
)
async def test_what_is_no_request_is_refused(session, message, answered_id):
    session.send(json.dumps(message).encode())
    (answer,) = session.sent
    assert (answer["id"], answer["error"]["code"]) == (answered_id, -32600)


async def test_unknown_requests_are_answered_and_unknown_notices_ignored(session):
    await session.start()
    assert (await session.error("no/such", {}))["code"] == -32601
    session.sent.clear()
    session.notify("no/such", {})
    session.notify("$/no/such", {})
    assert session.sent == []


async def test_string_ids_come_back_as_strings(session):
    await session.initialize()
    session.send({"jsonrpc": "2.0", "id": "1", "method": "shutdown"})
    answer = await session.response("1")
    assert answer == {"jsonrpc": "2.0", "id": "1", "result": None}


async def test_an_id_in_use_is_refused_and_the_first_request_still_answered(session):
    policy = await session.start()
    policy.gate = asyncio.Event()
    uri = session.open("x = ")
    request = {
        "jsonrpc": "2.0",
        "id": "same",
        "method": "textDocument/inlineCompletion",
        "params": session.completion(uri, 0, 4),
    }
    session.send(request)
    session.send(request)
    assert [m["error"]["code"] for m in session.responses("same")] == [-32600]
    policy.gate.set()
    await session.until(lambda: len(session.responses("same")) == 2)
    assert session.responses("same")[1]["result"]["items"]


async def test_initialize_twice_is_refused(session):
    await session.initialize()
    error = await session.error("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    assert error["code"] == -32600


async def test_initialize_with_nonsense_is_refused_and_may_be_tried_again(session):
    assert (await session.error("initialize", {"capabilities": []}))["code"] == -32602
    assert "capabilities" in await session.initialize()


async def test_odd_capabilities_do_not_keep_the_session_from_starting(session):
    odd = {"general": {"positionEncodings": [7, "ebcdic", "utf-8"]}, "window": [], "workspace": {"symbol": 1}}
    result = await session.initialize(odd)
    assert result["capabilities"]["positionEncoding"] == "utf-8"


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(None, "utf-16"), ([], "utf-16"), (["utf-32", "utf-16"], "utf-32"), (["utf-8", "utf-16"], "utf-8")],
)
async def test_the_clients_first_known_encoding_is_used(session, offered, chosen):
    result = await session.initialize({"general": {"positionEncodings": offered}})
    assert result["capabilities"]["positionEncoding"] == chosen


async def test_what_is_offered(session):
    offered = (await session.initialize())["capabilities"]
    assert offered["inlineCompletionProvider"] == {}
    assert offered["textDocumentSync"] == {"openClose": True, "change": 2}
    assert set(offered["executeCommandProvider"]["commands"]) == {
        "hearth.accepted",
        "hearth.explain",
        "hearth.status",
    }


async def test_shutdown_answers_what_is_still_open_and_frees_the_engine(session):
    policy = await session.start()
    policy.gate = asyncio.Event()
    running = session.complete(session.open("x = "), 0, 4)
    await policy.started.wait()
    assert await session.result("shutdown") is None
    assert [answer["result"] for answer in session.responses(running)] == [None]
    assert session.engines[0].closed
    assert len(policy.stopped) == 1


async def test_a_notice_with_wrong_params_is_logged_once(session, caplog):
    await session.start()
    for _ in range(3):
        session.notify("textDocument/didOpen", {"textDocument": {}})
    complaints = [record for record in caplog.records if "didOpen" in record.getMessage()]
    assert len(complaints) == 1
    assert "params.textDocument.uri" in complaints[0].getMessage()


async def test_cancelling_nonsense_is_ignored(session):
    await session.start()
    session.sent.clear()
    for params in ({"id": 99}, {"id": None}, {}, None, [], {"id": {}}):
        session.notify("$/cancelRequest", params)
    assert session.sent == []


async def test_replies_to_nothing_are_ignored(session):
    await session.start()
    session.sent.clear()
    for reply in ({"id": 9, "result": 1}, {"id": None, "error": {}}, {"result": 1}, {"id": [], "error": 3}):
        session.send({"jsonrpc": "2.0", **reply})
    assert session.sent == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
methods = st.sampled_from(
    [
        "textDocument/inlineCompletion",
        "workspace/executeCommand",
        "textDocument/didOpen",
        "textDocument/didChange",
        "textDocument/didFocus",
        "textDocument/didShowCompletion",
        "textDocument/didPartiallyAcceptCompletion",
        "workspace/didRenameFiles",
        "workspace/didChangeWorkspaceFolders",
        "workspace/didChangeConfiguration",
        "$/cancelRequest",
        "initialize",
        "x",
    ]
)
shaped = st.fixed_dictionaries(
    {},
    optional={
        "textDocument": json_values | st.fixed_dictionaries({"uri": st.just("file:///w/a.py")}),
        "position": json_values
        | st.fixed_dictionaries({"line": st.integers(0, 9), "character": st.integers(0, 2**31 - 1)}),
        "context": json_values | st.just({"triggerKind": 2}),
        "command": st.sampled_from(["hearth.accepted", "hearth.explain", "hearth.status"]) | json_values,
        "arguments": json_values,
        "contentChanges": json_values,
        "item": json_values,
        "settings": json_values,
        "capabilities": json_values,
    },
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(st.tuples(methods, json_values | shaped), max_size=12))
def test_each_request_gets_exactly_one_response(make_session_now, calls):
    asyncio.run(_count_responses(make_session_now, calls))


async def _count_responses(make_session_now, calls):
    session = make_session_now()
    await session.start()
    session.open("x = ")
    ids = [session.ask(method, params) for method, params in calls]
    for method, params in calls:
        session.notify(method, params)
    await session.until(lambda: all(session.responses(message_id) for message_id in ids))
    await session.server.close()
    assert [len(session.responses(message_id)) for message_id in ids] == [1] * len(ids)


@pytest.fixture
def make_session_now(session):
    return type(session)
