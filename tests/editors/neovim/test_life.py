"""The server's life: start, crash, restart, give up; settings, toggling and the commands."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.editor
RETURN = {"anchor": r"^\s*", "texts": ["return a + b"]}
REQUEST = "textDocument/inlineCompletion"


def running(editor) -> bool:
    return editor.status()["state"] == "running"


def test_a_crash_is_told_once_and_the_server_comes_back(editor, server, python_file) -> None:
    editor.lua("require('hearth.client').restart_delays_ms = { 1, 1, 1 }")
    server.rules({"answer": "crash"})
    editor.open(python_file(""))
    editor.keys("ir")
    server.wait_for("initialize", 2)
    server.rules(RETURN)
    editor.wait(lambda: running(editor) and editor.lua("return vim.lsp.buf_is_attached(0)"), "running again")
    editor.keys("e")
    editor.wait_row(1, "return a + b")
    assert editor.messages.count("starting it again") == 1
    assert "Traceback" not in editor.messages


def test_a_server_that_always_crashes_is_given_up_and_can_be_restarted(editor, server, python_file) -> None:
    editor.lua("require('hearth.client').restart_delays_ms = { 1, 1, 1 }")
    server.rules(exit_at_start=3)
    editor.nvim.command(f"edit {python_file('')}")
    editor.wait(lambda: editor.status()["state"] == "failed", "given up")
    assert len(server.received("test/exitAtStart")) == 4
    assert "stopped 4 times in a row (exit code 3)" in editor.messages
    assert editor.messages.count("starting it again") == 1
    server.rules(RETURN, exit_at_start=None)
    editor.nvim.command("Hearth restart")
    editor.wait(lambda: running(editor), "running after restart")
    editor.keys("ir")
    editor.wait_row(1, "return a + b")


def test_restart_ends_the_old_server_before_the_new_one_starts(editor, server, python_file) -> None:
    editor.open(python_file(""))
    editor.nvim.command("Hearth restart")
    server.wait_for("initialize", 2)
    assert server.order("initialize", "exit") == ["initialize", "exit", "initialize"]
    editor.wait(lambda: running(editor), "running")
    assert "stopped" not in editor.messages


def test_a_missing_server_is_told_with_what_to_do(bare, python_file) -> None:
    assert bare.lua("return require('hearth').setup({ cmd = { 'no-such-hearth', 'lsp' } })") is True
    bare.nvim.command(f"edit {python_file('', 'a.py')}")
    bare.nvim.command(f"edit {python_file('', 'b.py')}")
    bare.wait(lambda: bare.status()["state"] == "missing", "missing")
    assert bare.messages.count('cannot find its server "no-such-hearth"') == 1
    assert "cmd = {" in bare.messages
    assert "stack traceback" not in bare.messages


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            "{ cmd = 'hearth lsp' }",
            '"cmd" must be a list of strings such as { "hearth", "lsp" }, not "hearth lsp".',
        ),
        ("{ cmd = {} }", '"cmd" must be a list'),
        ("{ comd = {} }", 'there is no option "comd"; the options are cmd, cmd_env, debounce_ms'),
        ("{ debounce_ms = -1 }", '"debounce_ms" must be a whole number of milliseconds, 0 or more, not -1.'),
        ("{ filetypes = { 1 } }", '"filetypes" must be a list of filetypes'),
        ("{ settings = { 'x' } }", '"settings" must be a table such as'),
        ("7", "the options must be a table, not a number."),
    ],
)
def test_wrong_options_are_told_in_words(bare, options, words) -> None:
    assert bare.lua(f"return require('hearth').setup({options})") is False
    assert words in bare.messages
    assert "stack traceback" not in bare.messages
    assert bare.lua("return vim.fn.exists('#hearth')") == 0


def test_only_the_wanted_filetypes(bare, server, python_file) -> None:
    bare.lua("require('hearth').setup({ cmd = ..., filetypes = { 'rust' } })", server.command)
    bare.nvim.command(f"edit {python_file('', 'a.py')}")
    bare.nvim.command(f"edit {python_file('', 'a.rs')}")
    bare.wait_ready()
    (opened,) = server.wait_for("textDocument/didOpen")
    assert opened["params"]["textDocument"]["uri"].endswith("a.rs")


def test_settings_reach_the_server_in_both_ways(bare, server, python_file) -> None:
    options = {"cmd": server.command, "settings": {"mode": "single", "languages": {}}}
    bare.lua("local o = ...; o.settings.languages = {}; require('hearth').setup(o)", options)
    bare.open(python_file(""))
    expected = {"mode": "single", "languages": {}, "enabled": True}
    assert server.received("initialize")[0]["params"]["initializationOptions"] == expected
    client_settings = "return vim.lsp.get_clients({ name = 'hearth' })[1].settings.hearth"
    assert bare.lua(client_settings) == expected


def test_one_server_for_two_projects(editor, server, tmp_path) -> None:
    for project in ("one", "two"):
        (tmp_path / project / ".git").mkdir(parents=True)
        (tmp_path / project / "a.py").write_text("")
        editor.open(tmp_path / project / "a.py")
    (added,) = server.wait_for("workspace/didChangeWorkspaceFolders")
    assert added["params"]["event"]["added"][0]["uri"].endswith("/two")
    assert len(server.received("initialize")) == 1


def test_toggle_stops_the_asking_and_tells_the_server(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.open(python_file(""))
    editor.keys("ir")
    editor.wait_row(1, "return a + b")
    editor.keys("<Esc>")
    editor.nvim.command("Hearth toggle")
    change = server.wait_for("workspace/didChangeConfiguration", 2)[-1]
    assert change["params"]["settings"] == {"hearth": {"enabled": False}}
    asked = len(server.received(REQUEST))
    editor.keys("ae<Esc>")
    editor.wait_lines(["re"])
    editor.nvim.command("Hearth toggle")
    server.wait_for("workspace/didChangeConfiguration", 3)
    assert len(server.received(REQUEST)) == asked
    editor.keys("at")
    editor.wait_row(1, "return a + b")


def test_the_status_notice_reaches_the_status_line(editor, server, python_file) -> None:
    editor.open(python_file(""))
    editor.lua(
        "vim.api.nvim_create_autocmd('User', { pattern = 'HearthStatus', command = 'let g:told = 1' })"
    )
    editor.notify("test/status", {"busy": True, "kind": "Warning", "message": "loading the model"})
    editor.wait(lambda: editor.status()["busy"], "status")
    assert editor.status() == {
        "state": "running",
        "busy": True,
        "kind": "Warning",
        "message": "loading the model",
    }
    assert editor.nvim.vars["told"] == 1
    editor.nvim.command("Hearth status")
    words = "Hearth: The server is running. It is busy. loading the model\nhearth.status"
    editor.wait(lambda: words in editor.messages, "words")


def test_explain_opens_a_window(editor, server, python_file) -> None:
    editor.open(python_file(""))
    editor.nvim.command("Hearth explain")
    editor.wait(lambda: any("hearth.explain a.py" in row for row in editor.screen), "explanation")
    (run,) = server.received("workspace/executeCommand")
    assert run["params"]["arguments"][0].endswith("/a.py")


def test_an_unknown_subcommand_is_told(editor) -> None:
    editor.keys(":Hearth stauts<CR>")
    words = ':Hearth has no "stauts". It has: status, explain, toggle, restart.'
    editor.wait(lambda: words in editor.messages, "message")
    editor.keys("<CR>")
    assert editor.nvim.funcs.getcompletion("Hearth re", "cmdline") == ["restart"]


def test_checkhealth(editor, server, python_file) -> None:
    editor.open(python_file(""))
    editor.wait(lambda: running(editor), "running")
    editor.nvim.command("checkhealth hearth")
    report = "\n".join(editor.lines)
    assert "The server is running." in report
    assert "ERROR" not in report


def test_no_key_is_taken(bare) -> None:
    maps = bare.nvim.api.get_keymap("i")
    ours = [m["lhs"] for m in maps if "Hearth" in m.get("desc", "")]
    assert len(ours) == 7
    assert all(lhs.startswith("<Plug>(hearth-") for lhs in ours)
