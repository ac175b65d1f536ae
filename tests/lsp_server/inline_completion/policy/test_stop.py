"""Stop rules on a growing text: when they cut, and that a cut once made stays where it is."""

import pytest

from lsp_server.inline_completion.policy.mode import Mode
from lsp_server.inline_completion.policy.stop import MAX_LINES, block_floor, find_cut


@pytest.mark.parametrize(
    ("document", "text", "kept", "rule"),
    [
        ("def f():\n    ¦\n", "a()\nb", "a()\n", "block end"),
        ("def f():\n    ¦\n", "a()\n    b()\n  c", "a()\n    b()\n", "block end"),
        ("x = 1\n¦\n", "def f():\n    a()\n\ndef g", "def f():\n    a()\n\n", "next unit"),
        ("def f():\n    ¦\n    beta()\n", "a()\n    beta()\n", "a()\n", "reaches the text below"),
        ("def f():\n    ¦\n", "a()\n\n\n", "a()\n\n", "blank line"),
        ("def f():\n    ¦\n", "a()<|endoftext|>b", "a()", "control marker"),
        ("def f():\n    ¦\n", "a(b))", "a(b)", "closes what is not open"),
        ("x = ¦\n", "'" + "ab " * 30, "'ab ", "repeats itself"),
        ("def f():\n    ¦\n", "one()\n    two()\n    " * 3, "one()\n    two()", "repeats itself"),
    ],
)
def test_cuts(cursor_at, document, text, kept, rule):
    cut = find_cut(text, cursor_at(document), Mode.MULTI, final=False)
    assert cut is not None
    assert (text[: cut.keep], cut.rule) == (kept, rule)


@pytest.mark.parametrize(
    "text",
    [
        "a()\n    b()\n",
        "a()\n\n    b()\n",
        "if x:\n        return False\n    if y:\n        return False\n    if z:\n        return False\n",
        "x = f(\n1,\n2)\n",
        "x = '''\nno indentation\n'''\n",
        "a()\n",
        "a()\n   ",
        "f(')')\n",
        "-" * 10,
    ],
)
def test_goes_on(cursor_at, text):
    assert find_cut(text, cursor_at("def f():\n    ¦\n"), Mode.MULTI, final=False) is None


def test_many_lines_are_enough(cursor_at):
    text = "".join(f"a{number}()\n    " for number in range(MAX_LINES + 5))
    cut = find_cut(text, cursor_at("def f():\n    ¦\n"), Mode.MULTI, final=False)
    assert text[: cut.keep].count("\n") == MAX_LINES


@pytest.mark.parametrize(
    ("document", "floor"),
    [
        ("def f():¦\n", 1),
        ("def f():\n¦\n", 1),
        ("    def f():\n        ¦\n", 8),
        ("def f():\n    a()\n    ¦\n", 4),
        ("    x = ¦\n", 4),
        ("¦", 0),
    ],
)
def test_block_floor(cursor_at, document, floor):
    assert block_floor(cursor_at(document)) == floor


def test_a_cut_stays_while_more_text_comes(cursor_at):
    cursor = cursor_at("def f():\n    ¦\n    tail()\n")
    text = "a()\n    tail()\n    more()\n\n\ndef g():\n    pass\n"
    cuts = [find_cut(text[:end], cursor, Mode.MULTI, final=False) for end in range(len(text) + 1)]
    assert {cut.keep for cut in cuts if cut} == {len("a()\n")}
