import pytest

from lsp_server.inline_completion.policy.mode import decide_mode


@pytest.mark.parametrize(
    ("document", "language_id", "mode"),
    [
        ("def f():¦\n", "python", "multi"),
        ("def f():\n    ¦\n", "python", "multi"),
        ("def f():\n    ¦\n\n\ndef g():\n    pass\n", "python", "multi"),
        ("class A:\n    def f(self):\n        ¦\n\n    def g(self):\n        pass\n", "python", "multi"),
        ("def f():\n    ¦\n    return 1\n", "python", "single"),
        ("def f():\n    x = 1\n    ¦\n", "python", "single"),
        ("x = {'a':¦}\n", "python", "single"),
        ("x = a[1:¦\n", "python", "single"),
        ("f = lambda x:¦\n", "python", "single"),
        ("# see:¦\n", "python", "single"),
        ("s = 'a:¦'\n", "python", "single"),
        ("# sum it\n¦\n", "python", "multi"),
        ("x = ¦\n", "python", "single"),
        ("if x:¦  # why not\n", "python", "single"),
        ("function f() {¦}\n", "typescript", "multi"),
        ("function f() {\n  ¦\n}\n", "typescript", "multi"),
        ("function f() {\n  ¦\n  return 1;\n}\n", "typescript", "single"),
        ("xs.map(x =>¦)\n", "typescript", "multi"),
        ("const s = '{¦'\n", "typescript", "single"),
        ("fn f() {\n    ¦\n}\n", "rust", "multi"),
        ("// todo {\n¦\n", "rust", "multi"),
        ("int f() {\n    ¦\n}\n", "java", "multi"),
        ("int f() {\n    ¦\n    return 1;\n}\n", "java", "single"),
        ("{\n  ¦\n}\n", "json", "multi"),
        ("Note:¦\n", "markdown", "single"),
        ("¦", "python", "single"),
    ],
)
def test_by_position(cursor_at, document, language_id, mode):
    assert decide_mode(cursor_at(document, language_id), "auto", invoked=False)[0] == mode


def test_invoked_is_several_lines_unless_text_stands_right_of_the_cursor(cursor_at):
    assert decide_mode(cursor_at("x = ¦\n"), "auto", invoked=True)[0] == "multi"
    assert decide_mode(cursor_at("foo(¦, x)\n"), "auto", invoked=True)[0] == "single"
    assert decide_mode(cursor_at("¦foo(x)\n"), "auto", invoked=True)[0] == "single"
    assert decide_mode(cursor_at("if x:\n¦    foo(x)\n"), "auto", invoked=True)[0] == "multi"


def test_the_users_setting_wins(cursor_at):
    assert decide_mode(cursor_at("def f():¦\n"), "single", invoked=True) == ("single", "setting")
    assert decide_mode(cursor_at("x = ¦\n"), "multi", invoked=False) == ("multi", "setting")
