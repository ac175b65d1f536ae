"""Raw text of a parameter to JSON, by the type that the tool's schema gives it.

The qwen3_coder format writes values as they are, neither quoted nor escaped: the schema tells 5 from "5".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,400})(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_MOST_REFERENCES = 8
_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def types_of(schema: object, root: Mapping[str, object]) -> frozenset[str]:
    """JSON types that a schema allows, by its own words and those of its alternatives.

    root: where references (#/...) point into. Without any word on types it is a string, as for Qwen's own
    parser.
    """
    return _types(schema, root, _MOST_REFERENCES) or frozenset({"string"})


def _types(schema: object, root: Mapping[str, object], depth: int) -> frozenset[str]:
    if not isinstance(schema, Mapping) or depth == 0:
        return frozenset()
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset({named})
    if isinstance(named, list):
        return frozenset(name for name in named if isinstance(name, str))
    values = schema.get("enum")
    if isinstance(values, list):
        return frozenset(_TYPE_NAMES.get(type(value), "null") for value in values)
    if "const" in schema:
        return frozenset({_TYPE_NAMES.get(type(schema["const"]), "null")})
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _types(_resolve(reference, root), root, depth - 1)
    found: set[str] = set()
    for word in ("anyOf", "oneOf", "allOf"):
        alternatives = schema.get(word)
        if isinstance(alternatives, list):
            for alternative in alternatives[:64]:
                found |= _types(alternative, root, depth - 1)
    return frozenset(found)


def _resolve(reference: str, root: Mapping[str, object]) -> object:
    if not reference.startswith("#/"):
        return None
    value: object = root
    for part in reference[2:].split("/"):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part.replace("~1", "/").replace("~0", "~"))
    return value


class RawValue:
    """One value, fed piece by piece. Strings come out at once, anything else when it is whole."""

    def __init__(self, types: frozenset[str]) -> None:
        self._types = types
        self._streams = types <= {"string", "null"} and "string" in types
        self._parts: list[str] = []
        self._begun = False

    def feed(self, text: str) -> str:
        """JSON text that is certain now."""
        self._parts.append(text)
        if not self._streams or (not self._begun and self._may_be_null()):
            return ""
        quote, self._begun = "" if self._begun else '"', True
        held = self._held()
        self._parts.clear()
        return quote + quoted(held)[1:-1]

    def finish(self) -> str:
        """The rest of the value's JSON text."""
        if self._begun:
            return '"'
        return typed_json(self._held(), self._types)

    def cut(self) -> str:
        """What is held, when the text ends inside the value."""
        if self._streams and not self._begun:
            return '"' + quoted(self._held())[1:-1]
        return self._held()

    def _held(self) -> str:
        return "".join(self._parts)

    def _may_be_null(self) -> bool:
        return ("null" if "null" in self._types else "").startswith(self._held())


def quoted(text: str) -> str:
    """A JSON string."""
    return json.dumps(text, ensure_ascii=False)


def typed_json(raw: str, types: frozenset[str]) -> str:
    """JSON text of a raw value: of the first of its types that it can be, else a string of it."""
    text = raw.strip()
    if "null" in types and text in ("null", "None"):
        return "null"
    if "boolean" in types and text.lower() in ("true", "false"):
        return text.lower()
    if types & {"integer", "number"} and _NUMBER.fullmatch(text):
        return text
    if types & {"object", "array"} and text[:1] in ("{", "[") and is_json(text):
        return text
    return quoted(raw)


def is_json(text: str) -> bool:
    """Whether text is one JSON value, of a depth that readers can take."""
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def is_object(text: str) -> bool:
    """Whether text is one JSON object."""
    return text.lstrip()[:1] == "{" and is_json(text)


def _refuse(constant: str) -> object:
    raise ValueError(constant)
