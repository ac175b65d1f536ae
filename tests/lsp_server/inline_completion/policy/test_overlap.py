import pytest

from lsp_server.inline_completion.policy.overlap import trim_overlap


@pytest.mark.parametrize(
    ("document", "text", "expected"),
    [
        ("foo(¦, x)", "a, x)", "a"),
        ("foo(¦ , x )", "a,x)", "a"),
        ("x = ¦ if a else b", "1 if a", "1 "),
        ("x = ¦\nreturn x\n", "1\nreturn x", "1"),
        ("x = ¦\n\n\nreturn x\n", "1\nreturn x", "1"),
        ("x = ¦\nreturn x\ny\n", "1\nreturn x\ny", "1"),
        ("return ¦text)\n", "len(text)", "len("),  # the line closes what only the suggestion can open
        ("return ¦items))\n", "sorted(list(items))", "sorted(list("),
        ("    ¦\n    return x\n", "return x", ""),
        ("    ¦\n    return x\n", "y = 1\n    return x\n", "y = 1"),
    ],
)
def test_overlaps_go(cursor_at, document, text, expected):
    assert trim_overlap(text, cursor_at(document)) == expected


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("foo(¦, b)", "bar(a, b)"),  # the bracket is the suggestion's own
        ("foo(¦)", "a)"),  # covered by the range instead
        ("x = ¦\nx = 1\n", "x"),  # a word is no line
        ("x = ¦\nreturn value\n", "1\nreturn"),  # half a line
        ("if a:\n    ¦\nreturn\n", "b\n    return"),  # another indentation
        ("self.¦names", "name"),  # half a word
        ("x = ¦\n", "1"),
        ("x = ¦", "1"),
    ],
)
def test_no_false_hits(cursor_at, document, text):
    assert trim_overlap(text, cursor_at(document)) == text
