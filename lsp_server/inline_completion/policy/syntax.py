"""What tree-sitter says about a place in a document: string or comment, block opener, well-formed or not.

Only a window round the cursor is parsed, so that one question costs at most a few milliseconds however
large the file is. A language without a grammar gets None, and the callers' lexical rules decide.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import tree_sitter_javascript
import tree_sitter_python
import tree_sitter_rust
import tree_sitter_typescript
from tree_sitter import Language, Node, Parser, Tree

# About 2 ms of parsing (measured: 0.25 ms per 1000 characters of Python).
WINDOW_BEFORE = 6000
WINDOW_AFTER = 2000

_GRAMMARS: dict[str, Callable[[], object]] = {
    "python": tree_sitter_python.language,
    "typescript": tree_sitter_typescript.language_typescript,
    "typescriptreact": tree_sitter_typescript.language_tsx,
    "javascript": tree_sitter_javascript.language,
    "javascriptreact": tree_sitter_javascript.language,
    "rust": tree_sitter_rust.language,
}

# Longer lines are generated or minified text, where syntax tells little and error recovery is slow (100 ms).
MAX_LINE = 1000

_CODE_IN_STRING = frozenset({"interpolation", "template_substitution"})
_NOT_BLOCKS = frozenset(
    {
        "pair",
        "slice",
        "lambda",
        "typed_parameter",
        "typed_default_parameter",
        "type_annotation",
        "format_specifier",
    }
)


@lru_cache(maxsize=16)
def _parser(language_id: str) -> Parser | None:
    grammar = _GRAMMARS.get(language_id)
    return Parser(Language(grammar())) if grammar else None


def _parse(text: str, language_id: str) -> Tree | None:
    parser = _parser(language_id)
    if parser is None or max(map(len, text.split("\n"))) > MAX_LINE:
        return None
    return parser.parse(text.encode("utf-8", "replace"))


def _at(tree: Tree, byte: int) -> Node | None:
    return tree.root_node.descendant_for_byte_range(byte, byte + 1)


def literal_at(before: str, after: str, language_id: str) -> str | None:
    """What the character that follows `before` would be part of.

    "string" (also a regular expression), "comment", "interpolation" (code inside a string) or "" (code);
    None when there is no grammar, or the text is too broken (or its lines too long) to say.
    """
    # An ordinary letter stands in for the text to come: a node then covers the place in question.
    tree = _parse(before + "x" + after, language_id)
    if tree is None:
        return None
    node = _at(tree, len(before.encode("utf-8", "replace")))
    while node is not None:
        if node.type in _CODE_IN_STRING:
            return "interpolation"
        if "comment" in node.type:
            return "comment"
        if "string" in node.type or node.type in ("regex", "char_literal"):
            return "string"
        node = node.parent
    return None if tree.root_node.has_error else ""


def opens_block(before: str, after: str, language_id: str) -> bool | None:
    """Whether the last token of `before` opens a block (not a slice, a mapping entry or an annotation).

    None when there is no grammar, or the text is too broken (or its lines too long) to say.
    """
    tree = _parse(before + after, language_id)
    if tree is None:
        return None
    byte = len(before.rstrip().encode("utf-8", "replace")) - 1
    node = _at(tree, byte) if byte >= 0 else None
    if node is None or node.parent is None:
        return None
    if node.parent.is_error:
        return None
    return node.type in (":", "{", "=>") and node.parent.type not in _NOT_BLOCKS


def well_formed(before: str, inserted: str, after: str, language_id: str) -> bool | None:
    """Whether no syntax error touches `inserted` once it stands between `before` and `after`.

    None when there is no grammar, or its lines are too long to say.
    """
    tree = _parse(before + inserted + after, language_id)
    if tree is None:
        return None
    start = len(before.encode("utf-8", "replace"))
    end = start + len(inserted.encode("utf-8", "replace"))
    pending = [tree.root_node]
    while pending:
        node = pending.pop()
        if node.end_byte < start or node.start_byte > end:
            continue
        if (
            node.is_error
            or node.is_missing
            or (node.start_byte >= start and _lacks_a_part(node, language_id))
        ):
            return False
        pending.extend(node.children)
    return True


def _lacks_a_part(node: Node, language_id: str) -> bool:
    """What the Python grammar lets pass and Python does not: an empty block, a try without handlers."""
    if language_id != "python":
        return False
    if node.type == "block":
        return node.named_child_count == 0
    return node.type == "try_statement" and all(
        child.type not in ("except_clause", "except_group_clause", "finally_clause")
        for child in node.children
    )
