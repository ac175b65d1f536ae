import pytest

from lsp_server.inline_completion.policy.complete_lines import cut_to_complete


@pytest.mark.parametrize(
    ("document", "language_id", "text", "kept"),
    [
        ("def f():\n    ¦\n", "python", "a()\n    b(", "a()"),
        ("def f():\n    ¦\n", "python", "a()\n    if x:\n        b(", "a()"),
        ("def f():\n    ¦\n", "python", "x = '''\n  a\n  b", "x = '''\n  a"),
        ("def f(:\n    ¦\n", "python", "a()\n    b(", "a()"),  # the document is broken already
        ("f(¦)\n", "python", "a)\ng(b)\nh(", "a)\ng(b)"),
        ("int f() {\n    ¦\n}\n", "java", "a();\n    if (b) {\n        c();\n    d", "a();"),
        ("def f():\n    ¦\n", "python", "return a +", "return a +"),
    ],
)
def test_cut_to_complete(cursor_at, document, language_id, text, kept):
    assert cut_to_complete(text, cursor_at(document, language_id)) == kept
