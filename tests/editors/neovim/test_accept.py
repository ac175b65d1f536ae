"""Accepting: exactly the offered text, at the place of now, as one undo step, in the file's own line ends."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.editor
RETURN = {"anchor": r"^\s*", "texts": ["return a + b"], "command": True}
BLOCK = {"anchor": r"^\s*", "texts": ["if a:\n    return  a.b\nreturn b"], "command": True}


def test_accept_save_and_command(editor, server, python_file) -> None:
    server.rules(RETURN)
    path = python_file("def f(a, b):\n    \n")
    editor.open(path)
    editor.keys("jAret")
    editor.wait_row(2, "    return a + b")
    editor.keys("<Tab>")
    editor.wait_lines(["def f(a, b):", "    return a + b"])
    assert editor.cursor == (2, 16)
    editor.keys("<Esc>:w<CR>")
    editor.wait(lambda: path.read_bytes() == b"def f(a, b):\n    return a + b\n", "saved")
    (run,) = server.wait_for("workspace/executeCommand")
    assert run["params"] == {"command": "scripted.accepted", "arguments": [0]}


def test_the_server_has_the_accepted_text_before_the_command(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.open(python_file(""))
    editor.keys("iret")
    editor.wait_row(1, "return a + b")
    editor.keys("<Tab>")
    server.wait_for("workspace/executeCommand")
    change = server.received("textDocument/didChange")[-1]
    assert change["params"]["contentChanges"][-1]["text"] == "urn a + b"
    order = server.order("textDocument/didChange", "workspace/executeCommand")
    assert order[-1] == "workspace/executeCommand"


def test_without_a_suggestion_tab_is_a_tab(editor, server, python_file) -> None:
    editor.open(python_file(""))
    editor.nvim.command("set expandtab softtabstop=4")
    editor.keys("ix<Tab>y")
    editor.wait_lines(["x   y"])


def test_keys_typed_right_after_the_accept_come_after_it(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.open(python_file(""))
    editor.keys("ire")
    editor.wait_row(1, "return a + b")
    editor.keys("<Tab> + c<CR>d")
    editor.wait_lines(["return a + b + c", "d"])


def test_accept_uses_the_buffer_of_now_when_the_answer_is_older(editor, server, python_file) -> None:
    """The text typed since the answer must not come twice (Neovim's own accept would give `return xre`)."""
    server.rules({"texts": ["return x"]})
    editor.open(python_file(""))
    editor.keys("i")
    editor.wait_row(1, "return x")
    server.rules({"answer": "hold"})
    editor.keys("re<Tab>")
    editor.wait_lines(["return x"])


def test_one_undo_takes_back_the_accept_and_only_that(editor, server, python_file) -> None:
    server.rules(BLOCK)
    editor.open(python_file("x = 1\n"))
    editor.keys("oi")
    editor.wait_rows(2, ["if a:", "    return  a.b", "return b"])
    editor.keys("<Tab><Esc>")
    editor.wait_lines(["x = 1", "if a:", "    return  a.b", "return b"])
    editor.keys("u")
    editor.wait_lines(["x = 1", "i"])
    editor.keys("<C-r>")
    editor.wait_lines(["x = 1", "if a:", "    return  a.b", "return b"])
    editor.keys("uu")
    editor.wait_lines(["x = 1"])


def test_typing_on_after_an_accept_undoes_cleanly(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.open(python_file("x = 1\n"))
    editor.keys("oret")
    editor.wait_row(2, "return a + b")
    editor.keys("<Tab> + c<CR>y<Esc>")
    editor.wait_lines(["x = 1", "return a + b + c", "y"])
    editor.keys("uuu")
    editor.wait_lines(["x = 1"])
    editor.keys("<C-r><C-r><C-r>")
    editor.wait_lines(["x = 1", "return a + b + c", "y"])


def test_word_by_word(editor, server, python_file) -> None:
    server.rules(BLOCK)
    editor.open(python_file(""))
    editor.keys("ii")
    editor.wait_row(1, "if a:")
    server.rules({"answer": "null"})
    steps = ["if", "if a", "if a:", "if a:\n    return", "if a:\n    return  a", "if a:\n    return  a."]
    for step in steps:
        editor.keys("<C-k>")
        editor.wait_lines(step.split("\n"))
        editor.wait_rows(1, ["if a:", "    return  a.b", "return b"])
        lines = step.split("\n")
        assert editor.cursor == (len(lines), len(lines[-1]))
    notices = server.wait_for("textDocument/didPartiallyAcceptCompletion", len(steps))
    assert [notice["params"]["acceptedLength"] for notice in notices] == [len(step) for step in steps]
    assert notices[0]["params"]["item"]["insertText"] == BLOCK["texts"][0]
    assert server.received("workspace/executeCommand") == []


def test_line_by_line_and_the_last_one_counts_as_the_whole(editor, server, python_file) -> None:
    server.rules(BLOCK)
    editor.open(python_file("# top\n"))
    editor.keys("oi")
    editor.wait_row(2, "if a:")
    server.rules({"answer": "null"})
    for step in (["if a:"], ["if a:", "    return  a.b"], ["if a:", "    return  a.b", "return b"]):
        editor.keys("<C-l>")
        editor.wait_lines(["# top", *step])
    server.wait_for("workspace/executeCommand")
    notices = server.received("textDocument/didPartiallyAcceptCompletion")
    lengths = [notice["params"]["acceptedLength"] for notice in notices]
    assert lengths == [len("if a:"), len("if a:\n    return  a.b")]
    assert not editor.visible()


def test_accepted_length_counts_utf16_units(editor, server, python_file) -> None:
    server.rules({"anchor": "^", "texts": ["'🙂-é日' + x"]}, encoding="utf-8")
    editor.open(python_file(""))
    editor.keys("i'")
    editor.wait_row(1, "'🙂-é日' + x")
    server.rules({"answer": "null"})
    editor.keys("<C-k>")
    editor.wait_lines(["'🙂"])
    editor.keys("<C-k>")
    editor.wait_lines(["'🙂-"])
    notices = server.wait_for("textDocument/didPartiallyAcceptCompletion", 2)
    assert [notice["params"]["acceptedLength"] for notice in notices] == [3, 4]


def test_mid_line_the_cursor_stays_after_what_was_inserted(editor, server, python_file) -> None:
    server.rules({"anchor": r"\(", "texts": ["1, 2)"], "covers": 1})
    editor.open(python_file("f() + 3\n"))
    editor.keys("f)i")
    editor.wait_row(1, "f(1, 2) + 3")
    editor.keys("<Tab>")
    editor.wait_lines(["f(1, 2) + 3"])
    assert editor.cursor == (1, len("f(1, 2)"))


def test_a_file_with_crlf_keeps_its_line_ends(editor, server, python_file) -> None:
    server.rules({"anchor": r"^\s*", "texts": ["if a:\r\n    pass\r\n"]})
    path = python_file("x = 1\r\n\r\ny = 2\r\n")
    editor.open(path)
    editor.keys("ji")
    editor.wait_rows(1, ["x = 1", "if a:", "    pass", "", "y = 2"])
    editor.keys("<Tab><Esc>:w<CR>")
    editor.wait(lambda: path.read_bytes() == b"x = 1\r\nif a:\r\n    pass\r\n\r\ny = 2\r\n", "saved")


def test_choices_of_an_invoked_request_are_cycled(editor, server, python_file) -> None:
    server.rules({"anchor": "^", "texts": ["one()", "two()"], "command": True})
    editor.open(python_file(""))
    editor.keys("i")
    editor.wait_row(1, "one()")
    editor.keys("<C-b>")
    editor.wait(
        lambda: (
            1
            in [
                m["params"]["context"]["triggerKind"]
                for m in server.received("textDocument/inlineCompletion")
            ]
        ),
        "invoked request",
    )
    editor.wait_row(1, "one()")
    editor.keys("<C-j>")
    editor.wait_row(1, "two()")
    editor.keys("<Tab>")
    editor.wait_lines(["two()"])
    assert server.wait_for("workspace/executeCommand")[0]["params"]["arguments"] == [1]
