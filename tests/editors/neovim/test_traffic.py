"""What goes over the wire, and that the screen never shows anything older than the keys."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.editor
RETURN = {"anchor": r"^\s*", "texts": ["return a + b"]}
REQUEST = "textDocument/inlineCompletion"


def frames_of_row(editor, row: int, keys: str, until: str) -> list[str]:
    """Type keys and return every frame that a terminal would have drawn of one screen row (0-based)."""
    nvim = editor.nvim
    nvim.ui_attach(80, 24, rgb=True, ext_linegrid=True)
    grid: dict[tuple[int, int], str] = {}
    frames: list[str] = []
    first = True
    while True:
        message = nvim.next_message()
        assert message is not None
        _, name, updates = message
        assert name == "redraw"
        for event, *calls in updates:
            for call in calls:
                if event == "grid_line":
                    _, line, column, cells = call[:4]
                    for cell in cells:
                        for _ in range(cell[2] if len(cell) > 2 else 1):
                            grid[line, column] = cell[0]
                            column += 1
                elif event == "grid_clear":
                    grid.clear()
                elif event == "flush":
                    frames.append("".join(grid.get((row, c), " ") for c in range(80)).rstrip())
        if first and frames:
            first = False
            frames.clear()
            nvim.input(keys)
        if frames and editor.lines[row] == until:
            return frames


def test_typing_the_suggestion_shrinks_it_without_one_false_frame(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.open(python_file(""))
    editor.keys("ir")
    editor.wait_row(1, "return a + b")
    server.rules({"answer": "hold"})  # whatever is on screen from here on is the client's own doing
    frames = frames_of_row(editor, 0, "eturn a", "return a")
    assert set(frames) == {"return a + b"}
    editor.wait(editor.visible, "still visible")


def test_backspace_brings_the_typed_part_back(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.open(python_file(""))
    editor.keys("ire")
    editor.wait_row(1, "return a + b")
    server.rules({"answer": "hold"})
    editor.keys("t<BS>")
    editor.wait_lines(["re"])
    editor.wait_row(1, "return a + b")


def test_typing_through_a_line_end(editor, server, python_file) -> None:
    server.rules({"anchor": r"^\s*", "texts": ["if a:\n    b()\n    c()"]})
    editor.open(python_file(""))
    editor.nvim.command("set autoindent shiftwidth=4 expandtab indentexpr=")
    editor.keys("iif a")
    editor.wait_rows(1, ["if a:", "    b()", "    c()"])
    server.rules({"answer": "hold"})
    editor.keys(":<CR>")
    editor.wait_lines(["if a:", ""])
    editor.wait_rows(1, ["if a:", "    b()", "    c()"])
    editor.keys("    b<Tab>")
    editor.wait_lines(["if a:", "    b()", "    c()"])


def test_other_text_hides_at_once(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.open(python_file(""))
    editor.keys("ire")
    editor.wait_row(1, "return a + b")
    server.rules({"answer": "hold"})
    editor.keys("x")
    editor.wait_row(1, "rex")
    assert not editor.visible()
    editor.keys("<Tab>")
    editor.wait(lambda: editor.lines[0].startswith("rex") and editor.lines[0] != "rex", "a real tab")
    assert editor.lines[0].strip() == "rex"


def test_a_new_request_leaves_the_one_before_to_the_server(editor, server, python_file) -> None:
    """The server supersedes it, or lets its generation answer the newer one; cancelling would stop that."""
    server.rules({"answer": "hold", "anchor": "^", "texts": ["return a"]})
    editor.open(python_file(""))
    editor.keys("ir")
    server.wait_for(REQUEST, 1)
    editor.keys("e")
    server.wait_for(REQUEST, 2)
    editor.notify("test/release")
    editor.wait_row(1, "return a")
    assert server.order(REQUEST, "$/cancelRequest") == [REQUEST, REQUEST]
    assert editor.messages == ""


def test_leaving_insert_mode_cancels(editor, server, python_file) -> None:
    server.rules({"answer": "hold", "texts": ["x"]})
    editor.open(python_file(""))
    editor.keys("ir")
    request = server.wait_for(REQUEST)[-1]
    editor.keys("<Esc>")
    cancelled = server.wait_for("$/cancelRequest")[-1]
    assert cancelled["params"]["id"] == request["id"]


@pytest.mark.parametrize(("more", "fits"), [("et", True), ("x", False)])
def test_an_answer_that_comes_after_more_keys(editor, server, python_file, more, fits) -> None:
    """The debounce is made long, so that the answer to the first request meets keys not yet asked about."""
    server.rules({"answer": "hold", "anchor": "^", "texts": ["return a"]})
    editor.open(python_file(""))
    editor.keys("ir")
    asked_after_r = {"line": 0, "character": 1}
    editor.wait(
        lambda: asked_after_r in [m["params"]["position"] for m in server.received(REQUEST)], "request"
    )
    editor.lua("require('hearth.config').current.debounce_ms = 100000")
    asked = len(server.received(REQUEST))
    editor.keys(more)
    editor.wait_lines(["r" + more])
    editor.notify("test/release")
    # The answer to this later call proves that the released answer was handled before it.
    editor.lua(
        """
        local done = vim.schedule_wrap(function() vim.g.later = 1 end)
        vim.lsp.get_clients()[1].rpc.request('workspace/executeCommand', { command = 'x' }, done)
        """
    )
    editor.wait(lambda: editor.nvim.vars.get("later") == 1, "later answer")
    editor.wait_row(1, "return a" if fits else "rx")
    assert editor.visible() is fits
    assert len(server.received(REQUEST)) == asked
    if fits:
        editor.keys("<Tab>")
        editor.wait_lines(["return a"])


def test_null_keeps_and_an_empty_list_hides(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.open(python_file(""))
    editor.keys("ir")
    editor.wait_row(1, "return a + b")
    server.rules({"answer": "null"})
    asked = len(server.received(REQUEST))
    editor.keys("e")
    server.wait_for(REQUEST, asked + 1)
    editor.notify("test/after")
    server.wait_for("test/after")
    editor.wait_row(1, "return a + b")
    server.rules()
    editor.keys("t")
    editor.wait_row(1, "ret")
    assert not editor.visible()


def test_an_error_is_told_in_the_status_and_nowhere_else(editor, server, python_file) -> None:
    server.rules({"answer": "error"})
    editor.open(python_file(""))
    editor.keys("ir")
    editor.wait(lambda: "scripted fault" in editor.status()["message"], "status")
    assert editor.messages == ""
    assert editor.lines == ["r"]


def test_shown_is_told_once_for_each_suggestion(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.open(python_file(""))
    editor.keys("ir")
    editor.wait_row(1, "return a + b")
    shown = server.wait_for("textDocument/didShowCompletion")
    assert shown[0]["params"]["item"]["insertText"] == "return a + b"
    asked = len(server.received(REQUEST))
    editor.keys("e")
    server.wait_for(REQUEST, asked + 1)
    server.rules({"anchor": "^", "texts": ["reset()"]})
    editor.keys("s")
    editor.wait_row(1, "reset()")
    shown = server.wait_for("textDocument/didShowCompletion", 2)
    assert [notice["params"]["item"]["insertText"] for notice in shown] == ["return a + b", "reset()"]


def test_the_request_tells_version_and_formatting(editor, server, python_file) -> None:
    editor.open(python_file("x\n"))
    editor.nvim.command("set shiftwidth=3 expandtab")
    editor.keys("oy")
    request = server.wait_for(REQUEST)[-1]["params"]
    change = server.received("textDocument/didChange")[-1]["params"]
    assert request["textDocument"] == change["textDocument"]
    assert request["formattingOptions"] == {"tabSize": 3, "insertSpaces": True}
    assert request["context"] == {"triggerKind": 2}
    initialize = server.received("initialize")[0]["params"]
    assert "inlineCompletion" in initialize["capabilities"]["textDocument"]
    assert initialize["initializationOptions"] == {"enabled": True}


def test_native_ghost_text_is_never_beside_ours(editor, server, python_file) -> None:
    if not editor.lua("return vim.lsp.inline_completion ~= nil"):
        pytest.skip("this Neovim has no ghost text of its own")
    server.rules(RETURN)
    editor.open(python_file(""))
    editor.lua("vim.lsp.inline_completion.enable(true)")
    editor.keys("ir")
    editor.wait_row(1, "return a + b")
    marks: Any = editor.lua(
        """
        local found = {}
        for name, id in pairs(vim.api.nvim_get_namespaces()) do
          if #vim.api.nvim_buf_get_extmarks(0, id, 0, -1, {}) > 0 then found[#found + 1] = name end
        end
        return found
        """
    )
    assert marks == ["hearth_ghost"]


def test_each_buffer_and_tab_has_its_own_state(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.open(python_file("", "a.py"))
    editor.nvim.command(f"tabedit {python_file('', 'b.py')}")
    editor.wait_ready()
    editor.keys("ire")
    editor.wait(lambda: "return a + b" in editor.screen, "ghost in the second tab")
    editor.keys("<Esc>gtAr")
    editor.wait(lambda: "return a + b" in editor.screen, "ghost in the first tab")
    editor.keys("<Tab>")
    editor.wait_lines(["return a + b"])
    editor.keys("<Esc>gt")
    editor.wait_lines(["re"])
    uris = [message["params"]["textDocument"]["uri"] for message in server.received(REQUEST)]
    assert uris[0].endswith("b.py")
    assert uris[-1].endswith("a.py")


def test_focus_is_told(editor, server, python_file) -> None:
    editor.open(python_file("", "a.py"))
    server.wait_for("textDocument/didFocus", 1)
    editor.nvim.command(f"edit {python_file('', 'b.py')}")
    editor.wait_ready()
    editor.nvim.command("enew")
    editor.nvim.command("buffer b.py")

    def focused() -> list[str]:
        notices = server.received("textDocument/didFocus")
        return [n["params"].get("textDocument", {}).get("uri", "").rpartition("/")[2] for n in notices]

    editor.wait(
        lambda: focused()[-1:] == ["b.py"] and "a.py" in focused() and "" in focused(), "focus notices"
    )
    editor.lua("vim.api.nvim_exec_autocmds('FocusGained', {})")
    editor.wait(lambda: focused()[-2:] == ["b.py", "b.py"], "focus again")
    editor.lua("vim.api.nvim_exec_autocmds('FocusLost', {})")
    editor.wait(lambda: focused()[-1:] == [""], "focus lost")


def test_what_was_typed_before_the_server_came_is_asked_about(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.nvim.command(f"edit {python_file('')}")
    editor.keys("iret")
    editor.wait_row(1, "return a + b")
    assert len(server.received(REQUEST)) == 1


def test_a_cursor_that_rests_is_told_with_its_place(editor, server, python_file) -> None:
    server.rules(encoding="utf-8")
    editor.open(python_file("x = 1\ny = 'é' + 1\n"))
    editor.keys("j$")
    place = {"line": 1, "character": len("y = 'é' + ".encode())}

    def places() -> list[dict[str, int] | None]:
        return [notice["params"].get("position") for notice in server.received("textDocument/didFocus")]

    editor.wait(lambda: place in places(), "place")


def test_a_renamed_file_is_known_by_its_new_name(editor, server, python_file, tmp_path) -> None:
    server.rules(RETURN)
    editor.open(python_file("x\n", "old.py"))
    editor.nvim.command(f"saveas {tmp_path}/new.py")
    editor.wait_ready()
    editor.keys("or")
    editor.wait_row(2, "return a + b")
    assert server.received(REQUEST)[-1]["params"]["textDocument"]["uri"].endswith("new.py")
    opened = [
        m["params"]["textDocument"]["uri"].rpartition("/")[2] for m in server.received("textDocument/didOpen")
    ]
    assert opened == ["old.py", "new.py"]
