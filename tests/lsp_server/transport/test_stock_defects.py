"""The transport's numbered traps of pygls 2.1: each shown on a stock server, then absent from ours."""

import asyncio
import logging

import pytest

URI = "file:///w/a.py"


def request(params, message_id=1, method="textDocument/inlineCompletion"):
    return {"jsonrpc": "2.0", "id": message_id, "method": method, "params": params}


def completion(line=0, kind=2):
    return {
        "textDocument": {"uri": URI},
        "position": {"line": line, "character": 0},
        "context": {"triggerKind": kind},
    }


@pytest.mark.parametrize(
    ("params", "field"),
    [({"position": {"line": 0, "character": 0}}, "textDocument"), (completion(kind=7), "triggerKind")],
)
async def test_6_wrong_params_are_answered_in_words_and_without_a_popup(stock, session, params, field):
    await stock.initialize()
    await stock.send(request(params))
    assert stock.responses(1) == []
    assert stock.popups()

    await session.start()
    error = await session.error("textDocument/inlineCompletion", params)
    assert error["code"] == -32602
    assert field in error["message"]
    assert session.notices("window/showMessage") == []


async def test_6_a_change_for_an_unopened_document_is_no_popup(stock, session):
    change = {"textDocument": {"uri": URI, "version": 2}, "contentChanges": [{"text": "x"}]}
    await stock.initialize()
    partial = {
        "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}},
        "text": "x",
    }
    ranged = {**change, "contentChanges": [partial]}
    await stock.send({"jsonrpc": "2.0", "method": "textDocument/didChange", "params": ranged})
    assert stock.popups()

    await session.start()
    session.notify("textDocument/didChange", ranged)
    assert session.notices("window/showMessage") == []
    assert await session.items(session.open("x = "), 0, 4)


async def test_7_requests_before_initialize_and_after_shutdown(stock, session):
    await stock.send(request(completion()))
    assert "result" in stock.responses(1)[0]
    await stock.initialize()
    await stock.send(request(None, 2, "shutdown"))
    await stock.send(request(completion(), 3))
    assert stock.responses(3) == []

    assert (await session.error("textDocument/inlineCompletion", completion()))["code"] == -32002
    await session.start()
    assert await session.result("shutdown") is None
    assert (await session.error("textDocument/inlineCompletion", completion()))["code"] == -32600
    assert (await session.error("shutdown"))["code"] == -32600


async def test_8_a_fault_shows_no_traceback_no_path_and_no_text(stock, session, monkeypatch):
    await stock.initialize()
    await stock.send(request(completion(line=13)))
    assert "traceback" in stock.responses(1)[0]["error"]["data"]

    await session.start()

    def broken(*_):
        raise ValueError("secret text")

    monkeypatch.setattr("lsp_server.inline_completion.handler.why_excluded", broken)
    session.open("x = ")
    error = await session.error("textDocument/inlineCompletion", completion())
    assert error["code"] == -32603
    assert "data" not in error
    assert "secret" not in error["message"]
    assert "/" not in error["message"].replace("textDocument/inlineCompletion", "")
    assert session.notices("window/showMessage") == []


async def test_9_nested_jsonrpc_objects_stay_what_they_are(stock, session, monkeypatch):
    inner = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"b c": [1]}}
    call = {"command": "echo", "arguments": [{"deep": inner}]}
    await stock.initialize()
    await stock.send(request(call, method="workspace/executeCommand"))
    assert stock.commands == [] or stock.commands[0][0] != {"deep": inner}

    seen = []
    monkeypatch.setitem(
        __import__("lsp_server.requests.execute_command", fromlist=["COMMANDS"]).COMMANDS,
        "echo",
        lambda _, arguments: seen.append(arguments),
    )
    await session.start()
    assert await session.result("workspace/executeCommand", call) is None
    assert seen == [[{"deep": inner}]]


async def test_10_extras_of_copilot_clients_arrive(stock, session):
    extras = {
        **completion(),
        "textDocument": {"uri": URI, "version": 1},
        "formattingOptions": {"tabSize": 3, "insertSpaces": False},
    }
    await stock.initialize()
    await stock.send(request(extras))
    assert not hasattr(stock.params[0], "formatting_options")

    policy = await session.start()
    session.open("x = ", URI)
    await session.result("textDocument/inlineCompletion", extras)
    (question,) = policy.questions
    assert (question.tab_size, question.insert_spaces, question.version) == (3, False, 1)


async def test_11_keys_that_are_no_identifiers_keep_their_names(stock, session):
    await stock.initialize()
    await stock.send({"jsonrpc": "2.0", "method": "custom/method", "params": {"b c": 1}})
    assert not hasattr(stock.params[0], "b c")

    await session.start(options={"languages": {"b c": False, "class": False}})
    assert session.server.settings.languages == {"b c": False, "class": False}


async def test_13_no_message_body_reaches_any_logger(stock, session, caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("pygls", "lsp_server"):
        caplog.set_level(logging.DEBUG, logger=name)
    text = "password = 'hunter2'\n"
    opened = {"textDocument": {"uri": URI, "languageId": "python", "version": 1, "text": text}}
    await stock.initialize()
    await stock.send({"jsonrpc": "2.0", "method": "window/logMessage", "params": {"text": text, "type": 3}})
    stock.server.protocol.notify("custom/echo", opened)
    assert "hunter2" in caplog.text

    caplog.clear()
    await session.start()
    session.notify("textDocument/didOpen", opened)
    policy = session.policy
    policy.insert = [text.strip()]
    assert await session.items(URI, 1, 0)
    policy.error = ValueError(text)
    assert await session.items(URI, 1, 0) == []
    session.notify("textDocument/didOpen", {"textDocument": {"text": text}})
    await session.error("textDocument/inlineCompletion", {"textDocument": text})
    session.send(text.encode())
    assert "hunter2" not in caplog.text
    assert "not JSON" in caplog.text


async def test_14_a_request_cancelled_while_it_waits_never_runs(session):
    policy = await session.start()
    policy.gate = asyncio.Event()
    uri = session.open("x = ")
    first = session.complete(uri, 0, 4)
    await policy.started.wait()
    second = session.complete(uri, 0, 4)
    session.notify("$/cancelRequest", {"id": second})
    policy.gate.set()
    assert (await session.response(first))["result"] is None
    assert (await session.response(second))["error"]["code"] == -32800
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(policy.questions) == 1
