"""What is seen: ghost text at the right place, and never in the buffer."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.editor
RETURN = {"anchor": r"^\s*", "texts": ["return a + b"]}


def test_ghost_follows_the_keys_and_the_buffer_stays_as_typed(editor, server, python_file) -> None:
    server.rules(RETURN)
    path = python_file("def f(a, b):\n    \n")
    editor.open(path)
    editor.keys("jAret")
    editor.wait_row(2, "    return a + b")
    assert editor.lines == ["def f(a, b):", "    ret"]
    assert path.read_text() == "def f(a, b):\n    \n"


def test_lines_below_are_pushed_down_by_a_multi_line_ghost(editor, server, python_file) -> None:
    server.rules({"anchor": r"^\s*", "texts": ["if a:\n\treturn a\nreturn b"]})
    editor.open(python_file("def f(a, b):\n    \n# end\n"))
    editor.nvim.command("set tabstop=4")
    editor.keys("jAi")
    editor.wait_rows(1, ["def f(a, b):", "    if a:", "    return a", "return b", "# end"])


def test_text_right_of_the_cursor_makes_room(editor, server, python_file) -> None:
    server.rules({"anchor": r"\(", "texts": ["1, 2"]})
    editor.open(python_file("f() + 3\n"))
    editor.keys("f)i")
    editor.wait_row(1, "f(1, 2) + 3")
    assert editor.lines == ["f() + 3"]


def test_a_replaced_bracket_is_not_shown_twice(editor, server, python_file) -> None:
    server.rules({"anchor": r"\(", "texts": ["1, g(2))"], "covers": 1})
    editor.open(python_file("f() + 3\n"))
    editor.keys("f)i")
    editor.wait_row(1, "f(1, g(2)) + 3")


def test_a_multi_line_ghost_inside_a_line_shows_what_will_be(editor, server, python_file) -> None:
    server.rules({"anchor": r"\(", "texts": ["\n    1,\n    2,\n"]})
    editor.open(python_file("call(long_name) + 3\n# end\n"))
    editor.keys("f(a")
    editor.wait_rows(1, ["call(", "    1,", "    2,", "long_name) + 3", "# end"])
    editor.keys("<Tab>")
    editor.wait_lines(["call(", "    1,", "    2,", "long_name) + 3", "# end"])


def test_replaced_text_that_differs_is_shown_as_it_will_be(editor, server, python_file) -> None:
    server.rules({"anchor": r"= ", "texts": ["two + three"], "covers": 8})
    editor.open(python_file("x = one_more;\n"))
    editor.keys("fei<Left><Left>")
    editor.wait_row(1, "x = two + three;")
    assert editor.lines == ["x = one_more;"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_columns_left_of_the_cursor_in_every_encoding(editor, server, python_file, encoding) -> None:
    server.rules({"anchor": r"'\) ", "texts": ["+ 'é🙂' + rest"]}, encoding=encoding)
    editor.open(python_file("x = len('日本🙂é')\n"))
    editor.keys("A +")
    editor.wait_row(1, "x = len('日本🙂é') + 'é🙂' + rest")
    position = server.wait_for("textDocument/inlineCompletion")[-1]["params"]["position"]
    left = "x = len('日本🙂é') +"
    units = {"utf-8": len(left.encode()), "utf-16": len(left.encode("utf-16-le")) // 2, "utf-32": len(left)}
    assert position == {"line": 0, "character": units[encoding]}
    editor.keys("<Tab>")
    editor.wait_lines(["x = len('日本🙂é') + 'é🙂' + rest"])
    assert editor.cursor == (1, len("x = len('日本🙂é') + 'é🙂' + rest".encode()))


def test_after_a_tab_the_ghost_stands_in_its_display_column(editor, server, python_file) -> None:
    server.rules({"anchor": r"^\t*", "texts": ["a\tb"]})
    editor.open(python_file("x\n"))
    editor.nvim.command("set noexpandtab tabstop=8")
    editor.keys("o<C-v><Tab>")
    editor.wait_row(2, " " * 8 + "a" + " " * 7 + "b")


def test_first_line_of_an_empty_file(editor, server, python_file) -> None:
    server.rules({"texts": ["import os"]})
    editor.open(python_file(""))
    editor.keys("i")
    editor.wait_row(1, "import os")
    editor.keys("<Tab>")
    editor.wait_lines(["import os"])


def test_the_empty_last_line(editor, server, python_file) -> None:
    server.rules({"anchor": "^", "texts": ["print(1)"]})
    path = python_file("x = 1\n")
    editor.open(path)
    editor.keys("o")
    editor.wait_rows(1, ["x = 1", "print(1)"])
    position = server.wait_for("textDocument/inlineCompletion")[-1]["params"]["position"]
    assert position == {"line": 1, "character": 0}
    editor.keys("<Tab><Esc>:w<CR>")
    editor.wait(lambda: path.read_bytes() == b"x = 1\nprint(1)\n", "saved")


def test_leaving_insert_mode_hides(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.open(python_file("x = 1\n"))
    editor.keys("oret")
    editor.wait_row(2, "return a + b")
    editor.keys("<Esc>")
    editor.wait_row(2, "ret")
    assert not editor.visible()


def test_dismiss_hides_until_the_next_change(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.open(python_file(""))
    editor.keys("iret")
    editor.wait_row(1, "return a + b")
    editor.keys("<C-g>")
    editor.wait_row(1, "ret")
    editor.keys("u")
    editor.wait_row(1, "return a + b")


def test_hidden_while_the_popup_menu_is_open(editor, server, python_file) -> None:
    server.rules(RETURN)
    editor.open(python_file("retina\nretort\n\n"))
    editor.nvim.command("set completeopt=menu,noinsert,noselect")
    editor.keys("Goret")
    editor.wait_row(4, "return a + b")
    editor.keys("<C-n>")
    editor.wait(lambda: editor.nvim.funcs.pumvisible() == 1, "popup menu")
    editor.wait(lambda: "return" not in editor.screen[3], "ghost hidden")
    assert not editor.visible()
    editor.keys("<C-e>")
    editor.wait_row(4, "return a + b")


def test_an_item_for_another_line_or_a_snippet_is_never_shown(editor, server, python_file) -> None:
    editor.open(python_file("x = 1\ny = 2\n"))
    place = {"buf": editor.nvim.current.buffer.number, "row": 0, "column": 3, "line": "x = 1"}
    new = "return require('hearth.suggestion').new(select(1, ...), select(2, ...), 1, 'utf-16') == nil"

    def at(line: int, first: int, last: int) -> dict:
        return {
            "insertText": "z",
            "range": {"start": {"line": line, "character": first}, "end": {"line": line, "character": last}},
        }

    assert editor.lua(new, {"insertText": {"kind": "snippet", "value": "z"}}, place)
    assert editor.lua(new, at(1, 0, 3), place)
    assert editor.lua(new, at(0, 0, 2), place)
    assert editor.lua(new, at(0, 4, 5), place)
    assert not editor.lua(new, at(0, 2, 4), place)
