"""From the bytes of a request to a checked value: strict JSON first, then the model of its route."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError

from engine.service.http.problems import BadField

T = TypeVar("T")

MAX_DEPTH = 64
"""Levels of nesting; templates, schemas and serialisers recurse over what is let through."""

MAX_VALUES = 1 << 18
"""Values in a body, members of arrays and objects: enough for the ids of the longest prompt. To check one,
and to tell what is wrong with it, takes microseconds of the event loop that all requests share."""

# Complaints that are looked at for the likeliest one: there may be one for each value of the body.
_MOST_COMPLAINTS = 1_000


def parse_json(body: bytes) -> object:
    """The value of a JSON text. Raises BadField for anything that two readers might read differently.

    Refused beside what is no JSON: text that is not UTF-8, a name twice in one object, NaN and infinities,
    numbers beyond a double, half a surrogate pair, nesting deeper than MAX_DEPTH, more than
    MAX_VALUES values.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadField("", f"The body is not UTF-8: byte {error.start} is part of no character.") from None
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise BadField(
            "", f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:  # an integer with more digits than Python converts
        raise BadField("", "The body has a number that is too long.") from None
    _check_shape(value)
    # Only an escape can make half a pair: as bytes it would not have been UTF-8.
    if "\\ud" in text or "\\uD" in text:
        _check_surrogates(value)
    return value


def read_body(body: bytes, adapter: TypeAdapter[T]) -> T:
    """The request in a body. Raises BadField, which names the field."""
    value = parse_json(body)
    if not isinstance(value, dict):
        raise BadField("", "The body must be a JSON object.")
    try:
        # From the text, not the value: strictness means for JSON what it should (an array may be a tuple).
        return adapter.validate_json(body, strict=True)
    except ValidationError as error:
        raise _bad_field(error, value) from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise BadField(_printable(twice), "The field is there twice.")
    return made


def _no_constant(name: str) -> NoReturn:
    raise BadField("", f"The body has {name}, which is no JSON number.")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise BadField("", "The body has a number that is too large.")
    return number


def _check_shape(value: object) -> None:
    level: list[object] = [value]
    values = 1
    for _ in range(MAX_DEPTH):
        values += sum(len(parent) for parent in level if isinstance(parent, (dict, list)))
        if values > MAX_VALUES:
            raise BadField("", f"The body has more than {MAX_VALUES} values.")
        level = [
            child
            for parent in level
            if isinstance(parent, (dict, list))
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> BadField:
    return BadField("", f"The body is nested more than {MAX_DEPTH} levels deep.")


def _check_surrogates(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadField("", "The body has half of a surrogate pair, which is no character.") from None


_ABSENT = frozenset({"missing", "missing_argument"})
_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})


def _bad_field(error: ValidationError, value: object) -> BadField:
    """Of several complaints (a union has one for each branch) the one likeliest about what was meant."""
    told = []
    complaints = error.errors(include_url=False, include_input=False)
    for complaint in complaints[:_MOST_COMPLAINTS]:
        kind = complaint["type"]
        path = _path(complaint["loc"], value, last_is_absent=kind in _ABSENT)
        # A branch for another type of JSON says the least; the one that went deepest understood the most.
        # Of one object, what its type is comes before what else is wrong with it.
        weight = 0 if kind.endswith("_type") else 2
        if kind == "literal_error":
            weight = 3 if path[-1:] == ["type"] else 1
        told.append(((len(path), weight), path, _words(kind, complaint["msg"], complaint.get("ctx", {}))))
    _, path, words = max(told, key=lambda one: one[0])
    field = ".".join(str(part) for part in path)
    return BadField(_printable(field), words)


def _words(kind: str, message: str, context: Mapping[str, Any]) -> str:
    if kind in _UNKNOWN:
        return "This field is unknown or not supported."
    if kind in _ABSENT:
        return "This field is required."
    if kind == "union_tag_invalid":
        tag, expected = _printable(str(context["tag"])), context["expected_tags"]
        return f"'{tag}' is not supported here; what is: {expected}."
    return message.rstrip(".") + "."


def _path(location: Sequence[str | int], value: Any, *, last_is_absent: bool) -> list[str | int]:
    """A location without the names of union branches, which the request does not have."""
    path: list[str | int] = []
    for index, part in enumerate(location):
        if part in value if isinstance(value, dict) else _is_index(part, value):
            value = value[part]
            path.append(part)
        elif last_is_absent and index == len(location) - 1:
            path.append(part)
    return path


def _is_index(part: str | int, value: object) -> bool:
    return isinstance(value, list) and isinstance(part, int) and part < len(value)


def _printable(text: str) -> str:
    """The start of a text of the request; half a surrogate pair could not be sent back."""
    return text[:100].encode(errors="replace").decode()
