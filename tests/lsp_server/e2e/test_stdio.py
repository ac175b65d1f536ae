"""A real process over real pipes: framing, life and death, and what is left in the log."""

import asyncio
import json
import os
import sys

import pytest

URI = "file:///w/a.py"
SECRET = "hunter2-correct-horse"


def document(text):
    return {"textDocument": {"uri": URI, "languageId": "python", "version": 1, "text": text}}


def completion(line=0, character=4):
    return {
        "textDocument": {"uri": URI},
        "position": {"line": line, "character": character},
        "context": {"triggerKind": 2},
    }


async def is_alive(client):
    """The next request is answered, and nothing comes before its answer but notices."""
    answer = await client.request("textDocument/inlineCompletion", completion())
    assert "result" in answer
    return True


BROKEN = {
    "not JSON": b"Content-Length: 3\r\n\r\n{{{",
    "no length": b"Content-Type: x\r\n\r\n",
    "length in words": b"Content-Length: many\r\n\r\n",
    "empty": b"Content-Length: 0\r\n\r\n",
    "not UTF-8": b"Content-Length: 4\r\n\r\n\xff\xff\xff\xff",
    "endless header": b"x" * 300_000 + b"\r\n\r\n",
}


async def test_a_broken_message_gets_the_parse_error_and_the_next_one_its_answer(spawn):
    async with spawn() as client:
        await client.initialize()
        for name, broken in BROKEN.items():
            await client.write(broken)
            answer = await client.read_until(lambda m: "method" not in m)
            assert (answer["id"], answer["error"]["code"]) == (None, -32700), name
            assert await is_alive(client)


async def test_headers_in_any_case_and_order_and_split_writes_are_read(spawn):
    async with spawn() as client:
        await client.initialize()
        body = json.dumps({"jsonrpc": "2.0", "id": "é", "method": "shutdown"}, ensure_ascii=False).encode()
        message = (
            b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length:%d\r\n\r\n"
            % len(body)
        )
        for byte in message + body:
            await client.write(bytes([byte]))
        assert await client.read() == {"jsonrpc": "2.0", "id": "é", "result": None}


async def test_exit_without_shutdown_is_code_1(spawn):
    async with spawn() as client:
        await client.notify("exit")
        assert await client.exit_code() == 1


async def test_exit_after_shutdown_is_code_0(spawn):
    async with spawn() as client:
        await client.initialize()
        await client.request("shutdown")
        await client.notify("exit")
        assert await client.exit_code() == 0


async def test_a_worker_thread_that_hangs_does_not_keep_the_process_alive(spawn):
    async with spawn() as client:
        await client.initialize()
        await client.notify("textDocument/didOpen", document("#hang"))
        await client.send(
            {"jsonrpc": "2.0", "id": 9, "method": "textDocument/inlineCompletion", "params": completion(0, 5)}
        )
        await client.read_until(lambda m: m.get("method") == "test/started")
        await client.request("shutdown")
        await client.notify("exit")
        assert await client.exit_code() == 0


@pytest.mark.parametrize("half", [b"", b"Content-Length: 100\r\n\r\n{"])
async def test_the_end_of_stdin_ends_the_server(spawn, half):
    async with spawn() as client:
        await client.initialize()
        await client.write(half)
        await client.close_stdin()
        assert await client.exit_code() == 1


async def test_the_end_of_stdin_ends_the_server_while_the_engine_works(spawn):
    async with spawn() as client:
        await client.initialize()
        await client.notify("textDocument/didOpen", document("#wait"))
        await client.send(
            {"jsonrpc": "2.0", "id": 9, "method": "textDocument/inlineCompletion", "params": completion(0, 5)}
        )
        await client.read_until(lambda m: m.get("method") == "test/started")
        await client.close_stdin()
        await client.read_until(lambda m: m.get("method") == "test/stopped")
        assert await client.exit_code() == 1


@pytest.mark.skipif(sys.platform == "win32", reason="on Windows the end of stdin tells")
async def test_the_death_of_the_editor_ends_the_server(spawn):
    """stdin stays open here, as when another process of the editor holds a copy of the pipe."""
    editor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import sys; sys.stdin.read()", stdin=asyncio.subprocess.PIPE
    )
    async with spawn() as client:
        await client.initialize(process_id=editor.pid)
        assert await is_alive(client)
        assert editor.stdin is not None
        editor.stdin.close()
        await editor.wait()
        assert await client.exit_code() == 1


async def test_an_editor_in_another_container_is_not_mistaken_for_dead(spawn):
    async with spawn() as client:
        await client.initialize(process_id=2**22 + os.getpid())
        assert await is_alive(client)


async def test_cancelling_stops_the_engine_and_gives_one_answer(spawn):
    async with spawn() as client:
        await client.initialize()
        await client.notify("textDocument/didOpen", document("#wait"))
        await client.send(
            {
                "jsonrpc": "2.0",
                "id": "c",
                "method": "textDocument/inlineCompletion",
                "params": completion(0, 5),
            }
        )
        await client.read_until(lambda m: m.get("method") == "test/started")
        await client.notify("$/cancelRequest", {"id": "c"})
        answer = await client.read_until(lambda m: m.get("id") == "c")
        assert answer["error"]["code"] == -32800
        await client.read_until(lambda m: m.get("method") == "test/stopped")
        assert await is_alive(client)
        assert len([m for m in client.received if m.get("id") == "c"]) == 1


async def test_forty_keys_in_a_row_are_all_applied_and_all_answered(spawn):
    async with spawn() as client:
        await client.initialize()
        await client.notify("textDocument/didOpen", document(""))
        for key in range(40):
            place = {"line": 0, "character": key}
            change = {"range": {"start": place, "end": place}, "text": "k"}
            version = {"uri": URI, "version": key + 2}
            await client.notify(
                "textDocument/didChange", {"textDocument": version, "contentChanges": [change]}
            )
            await client.send(
                {
                    "jsonrpc": "2.0",
                    "id": f"k{key}",
                    "method": "textDocument/inlineCompletion",
                    "params": completion(0, key + 1),
                }
            )
        last = await client.read_until(lambda m: m.get("id") == "k39")
        assert last["result"]["items"][0]["range"]["start"] == {"line": 0, "character": 40}
        await client.request("shutdown")
        answers = [m for m in client.received if str(m.get("id", "")).startswith("k")]
        assert sorted(m["id"] for m in answers) == sorted(f"k{key}" for key in range(40))
        assert all(m["result"] is None or m["result"]["items"] for m in answers)


async def test_prints_of_libraries_do_not_break_the_stream(spawn):
    async with spawn() as client:
        await client.initialize()
        await client.notify("textDocument/didOpen", document("#print"))
        answer = await client.request("textDocument/inlineCompletion", completion(0, 6))
        assert answer["result"]["items"]


async def test_twenty_megabytes_come_through(spawn):
    async with spawn() as client:
        await client.initialize()
        await client.notify("textDocument/didOpen", document("x = 1  # a line\n" * 1_310_720))
        answer = await client.request("textDocument/inlineCompletion", completion(1_310_720, 0))
        assert answer["result"] == {"items": []}


async def test_the_log_holds_failures_but_no_source_text(spawn):
    async with spawn("debug") as client:
        await client.initialize()
        await client.notify("textDocument/didOpen", document(f"#boom {SECRET}"))
        answer = await client.request("textDocument/inlineCompletion", completion(0, 60))
        assert answer["result"] == {"items": []}
        await client.notify(
            "textDocument/didChange", {"textDocument": {"uri": URI}, "contentChanges": SECRET}
        )
        error = await client.request("workspace/executeCommand", {"command": SECRET})
        assert error["error"]["code"] == -32602
        await client.write(b"Content-Length: %d\r\n\r\n%s" % (len(SECRET), SECRET.encode()))
        await client.request("shutdown")
        await client.notify("exit")
        await client.exit_code()
        log = client.log()
        assert "ValueError" in log
        assert "fake_server.py" in log  # where it happened
        assert "not JSON" in log
        assert SECRET not in log
