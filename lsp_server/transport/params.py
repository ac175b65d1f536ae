"""From raw JSON params to typed values, or to words that name the field at fault."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeVar, cast

import attrs
from cattrs import BaseValidationError, Converter, transform_error
from cattrs.gen import make_dict_structure_fn, override
from lsprotocol.converters import get_converter

from lsp_server.transport.errors import InvalidParamsError

T = TypeVar("T")


def params_class(cls: type[T]) -> type[T]:
    """Class decorator: attrs fields in snake_case, read from JSON keys in camelCase; others are ignored."""
    made: Any = attrs.frozen(kw_only=True)(cls)
    attrs.resolve_types(made)
    renames: dict[str, Any] = {field.name: override(rename=_camel(field.name)) for field in attrs.fields(made)}
    read = make_dict_structure_fn(made, converter(), **renames)
    converter().register_structure_hook(made, read)
    return cast(type[T], made)


@cache
def converter() -> Converter:
    """lsprotocol's converter, made strict: a number is no string, and no string is a number."""
    strict = get_converter()
    # By predicate: a hook for int itself would also catch every integer enum.
    strict.register_structure_hook_func(lambda kind: kind in (str, int, bool), _strict)
    return strict


def structure(raw: object, cls: type[T]) -> T:
    """The params as `cls`. Raises InvalidParamsError, which names each field that is missing or wrong."""
    try:
        return converter().structure({} if raw is None else raw, cls)
    except BaseValidationError as error:
        raise InvalidParamsError(
            "; ".join(_worded(line) for line in transform_error(error, "params"))
        ) from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidParamsError("params do not have the expected shape") from error


def _strict(value: object, kind: type[T]) -> T:
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}")
    return value


def _worded(line: str) -> str:
    """cattrs' "problem @ path", with Python's field names turned back into the protocol's."""
    problem, _, path = line.partition(" @ ")
    return f"{_camel(path)}: {problem}"


def _camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda match: match.group(1).upper(), name)
