"""JSON schemas from requests: read, bounded, and put into the form that the grammar library takes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal

from engine.errors import RequestError

MAX_SOURCE = 256 * 1024  # characters of a schema, pattern or grammar
MAX_DEPTH = 64
MAX_VALUES = 10_000
MAX_PROPERTIES = 400  # of one object; the grammar's rows, and the square of its compile time, grow with them
MAX_REMAINDERS = 100_000
"""Of all `multipleOf` of a schema together. The grammar library makes a state for each remainder when it
compiles, outside of its own limits: 100,000 take 0.2 s, a million 6 s, and 10^8 more memory than there is."""

# Blanks between JSON tokens: enough for any usual layout, and an end to them, lest a model write for ever.
_BLANKS = r"\n?[ \t]{0,40}"


def check_size(source: str, what: str) -> None:
    """Raises RequestError when a constraint's text is too long."""
    if len(source) > MAX_SOURCE:
        raise RequestError(
            f"The {what} has {len(source)} characters; at most {MAX_SOURCE} can be enforced.",
            action=f"Make the {what} smaller.",
        )


def parse_schema(source: str, what: str = "JSON schema") -> Mapping[str, object]:
    """A schema from its text. Raises RequestError for what is no schema or over the limits."""
    check_size(source, what)
    try:
        schema = json.loads(source)
    except RecursionError:
        raise _over(what, f"nests deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise RequestError(f"The {what} is not JSON: {error}.") from None
    if schema is True:
        return {}
    if schema is False:
        raise RequestError(f"The {what} is false, which no value can match.")
    if not isinstance(schema, dict):
        raise RequestError(f"The {what} is not a JSON object.")
    _check_shape(schema, what)
    return schema


def bounded_schema(schema: Mapping[str, object], what: str) -> Mapping[str, object]:
    """A schema that came as values, under the same limits."""
    try:
        source = json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"The {what} cannot be written as JSON: {error}.") from None
    return parse_schema(source, what)


def guided(schema: Mapping[str, object], *, lenient: bool) -> dict[str, object]:
    """The schema with our options for the grammar library in place of any that came with it.

    lenient: keywords that cannot be enforced are ignored, not refused.
    """
    return {**schema, "x-guidance": {"whitespace_pattern": _BLANKS, "lenient": lenient}}


def _check_shape(schema: object, what: str) -> None:
    level: list[object] = [schema]
    values = 0
    remainders = 1
    for _ in range(MAX_DEPTH):
        values += len(level)
        if values > MAX_VALUES:
            raise _over(what, f"has more than {MAX_VALUES} values")
        deeper: list[object] = []
        for value in level:
            if isinstance(value, dict):
                if len(value) > MAX_PROPERTIES:
                    raise _over(what, f"has an object with more than {MAX_PROPERTIES} members")
                remainders = math.lcm(remainders, _remainders(value.get("multipleOf")))
                if remainders > MAX_REMAINDERS:
                    raise _over(what, f"has `multipleOf` with more than {MAX_REMAINDERS} remainders together")
                deeper.extend(value.values())
            elif isinstance(value, list):
                deeper.extend(value)
        if not deeper:
            return
        level = deeper
    raise _over(what, f"nests deeper than {MAX_DEPTH} levels")


def _remainders(divisor: object) -> int:
    """How many remainders a decimal text has, digit by digit; powers of ten cost nothing."""
    if isinstance(divisor, bool) or not isinstance(divisor, int | float) or not math.isfinite(divisor):
        return 1
    digits = "".join(map(str, Decimal(str(divisor)).as_tuple().digits)).rstrip("0")
    return int(digits) if digits else 1


def _over(what: str, limit: str) -> RequestError:
    return RequestError(f"The {what} {limit}, so it is not compiled.", action=f"Make the {what} simpler.")
