import pytest


@pytest.mark.parametrize(
    ("document", "language_id", "literal"),
    [
        ('def f():\n    """Count ¦\n', "python", "string"),
        ("x = f'{¦}'\n", "python", ""),
        ("x = f'{a} ¦'\n", "python", "string"),
        ("x = 'a'¦\n", "python", ""),
        ("x = 1  # the ¦\n", "python", "comment"),
        ("const s = 'foo ¦\n", "typescript", "string"),
        ("const s = `a ${¦} b`\n", "typescript", ""),
        ("/* a ¦ */\n", "typescript", "comment"),
        ('let s = "a ¦";\n', "rust", "string"),
        ("fn f<'a>(¦)\n", "rust", ""),
        ('String s = "a ¦";\n', "java", "string"),
        ("int x = ¦;\n", "java", ""),
    ],
)
def test_literal(cursor_at, document, language_id, literal):
    assert cursor_at(document, language_id).literal == literal


@pytest.mark.parametrize(
    ("document", "missing"),
    [
        ("function f() {\n  ¦\n}\n", ()),
        ("function f() {\n  ¦\n", ("}",)),
        ("function f() {\n  if (a) {\n    ¦\n}\n", ("}",)),
        # The inner block is closed; the outer one's bracket is not to be written in the inner one.
        ("function f() {\n  if (a) {\n    ¦\n  }\n", ()),
        ("foo(bar(¦)\n", (")",)),
        ("foo([¦])\n", ()),
        ("foo([¦\n", ("]", ")")),
        ("x = [(a¦]\n", (")",)),
        ("foo('(¦')\n", ()),
    ],
)
def test_missing_closers(cursor_at, document, missing):
    assert cursor_at(document, "typescript").missing == missing


def test_neighbouring_lines(cursor_at):
    cursor = cursor_at("a\n\n  b¦c\n \nd\n")
    assert (cursor.line_above, cursor.line_prefix, cursor.line_suffix, cursor.line_below) == (
        "a",
        "  b",
        "c",
        "d",
    )
    assert (cursor.word_left, cursor.word_right) == ("b", "c")
