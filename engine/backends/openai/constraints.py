"""Constraints of output in the words of each kind of server."""

from __future__ import annotations

import json

from engine.backends.openai.dialects import Dialect, Structured
from engine.backends.openai.sampling import cannot
from engine.errors import RequestError
from engine.types import Constraint, ConstraintKind


def constraint_fields(
    constraint: Constraint, dialect: Dialect, remote: str, *, chat: bool
) -> dict[str, object]:
    """The fields of a request. Raises RequestError where the server has no such constraint."""
    kind = constraint.kind
    if kind in (ConstraintKind.JSON_OBJECT, ConstraintKind.JSON_SCHEMA):
        if not chat and dialect.structured is Structured.NONE:
            raise cannot(remote, "constrained completions", action="Ask for a chat with a response format.")
        return {"response_format": _response_format(constraint)}
    if kind is ConstraintKind.REGEX and dialect.structured is Structured.FIELDS:
        return {"regex": constraint.source}
    if kind is ConstraintKind.REGEX and dialect.structured is Structured.OBJECT:
        return {"structured_outputs": {"regex": constraint.source}}
    if kind is ConstraintKind.LARK and dialect.grammar:
        return {"structured_outputs": {"grammar": constraint.source}}
    named = "regular expressions" if kind is ConstraintKind.REGEX else "grammars"
    raise cannot(remote, f"{named} for output")


def _response_format(constraint: Constraint) -> dict[str, object]:
    if constraint.kind is ConstraintKind.JSON_OBJECT:
        return {"type": "json_object"}
    try:
        schema = json.loads(constraint.source)
    except (ValueError, RecursionError):
        raise RequestError("The JSON schema of the constraint is not JSON.") from None
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
