"""Fields that several APIs share, and how the engine's values are made of them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from engine.service.http.problems import BadField
from engine.service.http.settings import Defaults
from engine.types import Constraint, ConstraintKind, SamplingParams

MAX_STOPS = 16
MAX_TOOLS = 128
_LONGEST_STOP = 256
_LONGEST_SCHEMA = 1 << 18
_LARGEST_INT = (1 << 31) - 1


class Strict(BaseModel):
    """A JSON object whose every field is known, and of exactly its type."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)


def kind_of(value: object) -> str | None:
    """The `type` of an object of the request, before or after it is read."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) else None


def _refuse(value: object) -> None:
    if value not in (None, False, "", [], {}):
        raise PydanticCustomError("unsupported", "This field is not supported")


Unsupported = Annotated[object, AfterValidator(_refuse), Field(description="Not supported; null or empty.")]
"""A field that clients send empty, and that means something when it is not."""

Ignored = Annotated[object, Field(description="Accepted; changes nothing.")]
"""A field without effect on the answer of an engine that keeps nothing and sends nothing anywhere."""

Tokens = Annotated[int, Field(ge=1, le=_LARGEST_INT)]
TokenId = Annotated[int, Field(ge=0, le=_LARGEST_INT)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
Temperature = Annotated[float, Field(ge=0, le=100)]
TopP = Annotated[float, Field(gt=0, le=1)]
TopK = Annotated[int, Field(ge=0, le=_LARGEST_INT)]
MinP = Annotated[float, Field(ge=0, le=1)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
RepetitionPenalty = Annotated[float, Field(gt=0, le=10)]
Seed = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
Stop = Annotated[str, Field(min_length=1, max_length=_LONGEST_STOP)]
Stops = Annotated[list[Stop], Field(max_length=MAX_STOPS)]
Schema = dict[str, object]


def sampling(defaults: Defaults, **given: float | int | None) -> SamplingParams:
    """The parameters of a request: what it gives, over the defaults. A negative seed draws a fresh one."""
    seed = given.get("seed")
    if seed is not None and seed < 0:
        given["seed"] = None
    changes = {name: value for name, value in given.items() if value is not None}
    return replace(defaults.sampling, **changes)  # type: ignore[arg-type]  # names and types are the fields' own


def for_choice(params: SamplingParams, index: int) -> SamplingParams:
    """The parameters of one of several choices: seeds apart, or all would say the same."""
    if index == 0 or params.seed is None:
        return params
    return replace(params, seed=params.seed + index)


def stops(given: str | list[str] | None) -> tuple[str, ...]:
    """Stop strings as one or several."""
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def schema_constraint(schema: Mapping[str, object], field: str) -> Constraint:
    """Output that matches a JSON schema. Raises BadField when its text is too long."""
    source = json.dumps(schema, ensure_ascii=False)
    if len(source) > _LONGEST_SCHEMA:
        raise BadField(field, f"The schema is longer than {_LONGEST_SCHEMA} characters.")
    return Constraint(ConstraintKind.JSON_SCHEMA, source)


def new_id(prefix: str) -> str:
    """A name for an answer that no other has."""
    return f"{prefix}{uuid.uuid4().hex}"


def now() -> int:
    """Seconds since the epoch."""
    return int(time.time())
