import pytest

from lsp_server.inline_completion.policy.languages import language
from lsp_server.inline_completion.policy.lexer import scan


def brackets(text, language_id, state=""):
    return "".join(mark.text for mark in scan(text, language(language_id), state).brackets)


@pytest.mark.parametrize(
    ("text", "language_id", "found", "state"),
    [
        ("f('(') # )", "python", "()", "#"),
        ('"""(\n', "python", "", '"""'),
        ("'(\n)", "python", ")", ""),
        ("'\\'('[", "python", "[", "'"[:0]),
        ("/* ( */ {", "rust", "{", ""),
        ("&'a str, '(' , '\\'' [", "rust", "[", ""),
        ("`${a}(", "typescript", "", "`"),
        ("x = /[)(]\\)/.test(s)", "javascript", "()", ""),
        ("a / (b) / c", "javascript", "()", ""),
        ("don't (", "markdown", "(", ""),
        ('{"a": "}"', "json", "{", ""),
        ("# (\n(", "yaml", "(", ""),
    ],
)
def test_scan(text, language_id, found, state):
    assert brackets(text, language_id) == found
    assert scan(text, language(language_id)).state == state


def test_the_end_of_the_string_it_began_in_is_a_mark():
    assert brackets("hello') 'x'", "python", state="'") == "')"


def test_the_end_of_a_comment_is_none():
    assert brackets("words */ (", "rust", state="/*") == "("
