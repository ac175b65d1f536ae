import pytest

from lsp_server.inline_completion.policy.indentation import IndentUnit, detect_unit, indent_width, normalise

TABS = IndentUnit(True, 4)
TWO = IndentUnit(False, 2)
FOUR = IndentUnit(False, 4)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("if a:\n  b\n  if c:\n    d\n", TWO),
        ("if a:\n    b\n    if c:\n        d\n", FOUR),
        ("if a:\n\tb\n", IndentUnit(True, 8)),
        ("a\nb\n", IndentUnit(True, 8)),  # the editor's options
        ("f(a,\n       b)\nif a:\n    b\n", FOUR),
        ("def f():\n    x = [\n      1,\n    ]\n    y = [\n      2,\n    ]\n", FOUR),
    ],
)
def test_detect_unit(text, unit):
    assert detect_unit(text, 8, False) == unit


def test_without_any_fact_four_blanks():
    assert detect_unit("", None, None) == FOUR


def test_a_tab_reaches_the_next_stop():
    assert indent_width("  \tx", FOUR) == 4
    assert indent_width("\t x", FOUR) == 5


@pytest.mark.parametrize(
    ("text", "base", "unit", "expected"),
    [
        ("if a:\n        b", "\t", TABS, "if a:\n\t\tb"),
        ("if a:\n\t\tb", "    ", FOUR, "if a:\n        b"),
        ("if a:\n      b", "  ", TWO, "if a:\n    b"),
        ("if a:\n  b\n  if c:\n    d", "", FOUR, "if a:\n    b\n    if c:\n        d"),
        ("if a:\n    b", "", FOUR, "if a:\n    b"),
        ("f(a,\n  b)", "", FOUR, "f(a,\n  b)"),  # aligned by hand: no block opener before it
        ("x = 1\ny = 2", "", FOUR, "x = 1\ny = 2"),
        ("one line", "\t", TABS, "one line"),
        ("if a:\n\n        b", "    ", FOUR, "if a:\n\n        b"),
    ],
)
def test_normalise(text, base, unit, expected):
    assert normalise(text, base, unit) == expected
