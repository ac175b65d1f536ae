"""From raw JSON params to typed values, or to words that name the field at fault."""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

import attrs
from cattrs import BaseValidationError, Converter, transform_error
from cattrs.gen import make_dict_structure_fn, override
from cattrs.v import format_exception
from lsprotocol import types as lsp
from lsprotocol.converters import get_converter

from lsp_server.transport.errors import InvalidParamsError

T = TypeVar("T")

# lsprotocol's own readers turn 1.5 into 1 and 1 into "1"; these types, inner ones first, are read strictly.
_STRICT = (
    lsp.Position,
    lsp.Range,
    lsp.TextDocumentIdentifier,
    lsp.VersionedTextDocumentIdentifier,
    lsp.TextDocumentItem,
    lsp.TextDocumentContentChangePartial,
    lsp.TextDocumentContentChangeWholeDocument,
    lsp.DidOpenTextDocumentParams,
    lsp.DidChangeTextDocumentParams,
    lsp.DidCloseTextDocumentParams,
    lsp.SelectedCompletionInfo,
    lsp.InlineCompletionContext,
    lsp.FileRename,
    lsp.RenameFilesParams,
    lsp.WorkspaceFolder,
    lsp.WorkspaceFoldersChangeEvent,
    lsp.DidChangeWorkspaceFoldersParams,
)


def params_class(cls: type[T]) -> type[T]:
    """Class decorator: attrs fields in snake_case, read from JSON keys in camelCase; others are ignored."""
    made: Any = attrs.frozen(kw_only=True)(cls)
    attrs.resolve_types(made)
    _read_strictly(converter(), made)
    return cast(type[T], made)


@cache
def converter() -> Converter:
    """lsprotocol's converter, made strict: a number is no string, and no string is a number."""
    strict = get_converter()
    for kind in (str, int, bool):
        strict.register_structure_hook(kind, _exactly)
    for cls in _STRICT:
        _read_strictly(strict, cls)
    return strict


def structure(raw: object, cls: type[T]) -> T:
    """The params as `cls`. Raises InvalidParamsError, which names each field that is missing or wrong."""
    try:
        return converter().structure({} if raw is None else raw, cls)
    except BaseValidationError as error:
        lines = transform_error(error, "params", format_exception=_in_words)
        raise InvalidParamsError("; ".join(_worded(line) for line in lines)) from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidParamsError("params do not have the expected shape") from error


def _read_strictly(strict: Converter, cls: Any) -> None:
    renames: dict[str, Any] = {field.name: override(rename=_camel(field.name)) for field in attrs.fields(cls)}
    read = make_dict_structure_fn(cls, strict, **renames)
    strict.register_structure_hook(cls, read)


def _exactly(value: object, kind: type[T]) -> T:
    if issubclass(kind, Enum):  # cattrs also brings enums of strings and numbers here
        return kind(value)
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}")
    return value


def _in_words(error: BaseException, kind: type[Any] | None) -> str:
    if "should be in range" in str(error):  # lsprotocol's validator; quotes nothing but numbers
        return str(error)
    return format_exception(error, kind)


def _worded(line: str) -> str:
    """cattrs' "problem @ path", with Python's field names turned back into the protocol's."""
    problem, _, path = line.partition(" @ ")
    return f"{_camel(path)}: {problem}"


def _camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda match: match.group(1).upper(), name)
