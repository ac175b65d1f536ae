import pytest

from lsp_server.inline_completion.policy import syntax


@pytest.mark.parametrize(
    ("before", "after", "language_id", "found"),
    [
        ("x = '", "'\n", "python", "string"),
        ("x = f'{", "}'\n", "python", "interpolation"),
        ("x = ", "\n", "python", ""),
        ("# ", "\n", "python", "comment"),
        ("const r = /a", "b/;\n", "javascript", "string"),
        ("const s = `${", "}`;\n", "typescript", "interpolation"),
        ("let c = '", "';\n", "rust", "string"),
        ("const e = <p>don't ", "</p>;\n", "typescriptreact", ""),
        ("x = ", "\n", "cobol", None),
    ],
)
def test_literal_at(before, after, language_id, found):
    assert syntax.literal_at(before, after, language_id) == found


@pytest.mark.parametrize(
    ("before", "inserted", "after", "language_id", "expected"),
    [
        ("def f():\n    ", "return 1", "\n", "python", True),
        ("def f():\n    ", "return (", "\n", "python", False),
        ("", "if x:\n", "y = 1\n", "python", False),
        ("", "try:\n    a()\n", "b()\n", "python", False),
        ("", "try:\n    a()\nfinally:\n    b()\n", "c()\n", "python", True),
        ("fn f() ", "{}", "\n", "rust", True),
        ("fn f() {\n    ", "g();", "\n}\n", "rust", True),
        ("fn f() {\n    ", "g(;", "\n}\n", "rust", False),
        ("x = ", "1", "\n", "cobol", None),
    ],
)
def test_well_formed(before, inserted, after, language_id, expected):
    assert syntax.well_formed(before, inserted, after, language_id) is expected


def test_very_long_lines_are_not_parsed():
    assert syntax.literal_at("x = '" + "a" * syntax.MAX_LINE, "'\n", "python") is None


def test_text_that_is_no_valid_unicode_is_parsed_all_the_same():
    assert syntax.literal_at("x = '\ud800", "'\n", "python") == "string"
