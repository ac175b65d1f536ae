"""The few lexical facts about a language that the rules need: comments, strings, how blocks begin."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Language:
    """Lexical facts.

    quotes: string delimiters, longest first; those in multiline may span lines.
    block_openers: line ends after which a new block is expected.
    block_keywords: words that begin a line whose block opener counts; () for no such rule.
    definitions: how lines begin that define a function or class, where only indentation ends the one before.
    clauses: words that begin a line which continues the statement above at its own indentation.
    rust_quotes: `'` starts a character only as in 'x', else it is a lifetime.
    regexes: a `/` where a value is expected begins a regular expression.
    prose: text for people, where apostrophes and brackets carry no structure.
    """

    line_comments: tuple[str, ...] = ("//",)
    block_comment: tuple[str, str] | None = ("/*", "*/")
    quotes: tuple[str, ...] = ('"', "'")
    multiline: frozenset[str] = frozenset()
    block_openers: tuple[str, ...] = ("{",)
    block_keywords: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    clauses: frozenset[str] = frozenset()
    rust_quotes: bool = False
    regexes: bool = False
    prose: bool = False


_C_LIKE = Language()
_SCRIPT = Language(quotes=('"', "'", "`"), multiline=frozenset("`"))
_JAVASCRIPT = replace(_SCRIPT, regexes=True)
_HASH = Language(line_comments=("#",), block_comment=None, block_openers=("{",))
_PROSE = Language(line_comments=(), block_comment=None, quotes=(), block_openers=(), prose=True)

_LANGUAGES = {
    "python": Language(
        line_comments=("#",),
        block_comment=None,
        quotes=('"""', "'''", '"', "'"),
        multiline=frozenset({'"""', "'''"}),
        block_openers=(":",),
        block_keywords=(
            *("async", "case", "class", "def", "elif", "else", "except", "finally", "for", "if"),
            *("match", "try", "while", "with"),
        ),
        definitions=("@", "async def ", "class ", "def "),
        clauses=frozenset({"case", "elif", "else", "except", "finally"}),
    ),
    "typescript": _JAVASCRIPT,
    "typescriptreact": _JAVASCRIPT,
    "javascript": _JAVASCRIPT,
    "javascriptreact": _JAVASCRIPT,
    "go": _SCRIPT,
    "rust": Language(quotes=('"', "'"), multiline=frozenset('"'), rust_quotes=True),
    "json": Language(quotes=('"',), line_comments=(), block_comment=None, block_openers=("{", "[")),
    "jsonc": Language(quotes=('"',), block_openers=("{", "[")),
    "shellscript": Language(
        line_comments=("#",),
        block_comment=None,
        multiline=frozenset("\"'"),
        block_openers=("{", "then", "do"),
    ),
    "ruby": _HASH,
    "yaml": Language(line_comments=("#",), block_comment=None, block_openers=(":",)),
    "toml": _HASH,
    "makefile": _HASH,
    "dockerfile": _HASH,
    "lua": Language(line_comments=("--",), block_comment=None, block_openers=("then", "do", "{")),
    "sql": Language(line_comments=("--",), multiline=frozenset("'"), block_openers=("(",)),
    "markdown": _PROSE,
    "plaintext": _PROSE,
    "latex": _PROSE,
    "restructuredtext": _PROSE,
    "git-commit": _PROSE,
}


def language(language_id: str) -> Language:
    """Facts about an LSP language id; an unknown one is taken for C-like."""
    return _LANGUAGES.get(language_id, _C_LIKE)
