"""The user's settings: what may be set, and words for what may not.

They come from initializationOptions, workspace/configuration (section `hearth`) and
workspace/didChangeConfiguration. A bad entry is reported and left out; the others stay in force.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

SECTION = "hearth"
# Keys that editors keep in our section for their own use.
_CLIENT_KEYS = frozenset({"trace", "path", "args", "env", "server"})


class Settings(BaseModel):
    """Every setting with its default. `accepts` in the schema is what a person is told on a wrong value."""

    model_config = ConfigDict(frozen=True, strict=True)

    enabled: Annotated[bool, Field(json_schema_extra={"accepts": "true or false"})] = True
    languages: Annotated[
        dict[str, bool],
        Field(json_schema_extra={"accepts": 'an object such as {"markdown": false}'}),
    ] = {}
    exclude: Annotated[
        list[str],
        Field(json_schema_extra={"accepts": 'a list of path patterns such as ["**/*.txt", "secrets/**"]'}),
    ] = []
    mode: Annotated[
        Literal["auto", "single", "multi"],
        Field(json_schema_extra={"accepts": '"auto", "single" or "multi"'}),
    ] = "auto"
    model: Annotated[
        str, Field(json_schema_extra={"accepts": 'a name of `hearth models list`, or "" for the default'})
    ] = ""
    threads: Annotated[
        int, Field(ge=0, le=1024, json_schema_extra={"accepts": "a whole number from 0 (automatic) to 1024"})
    ] = 0
    maxTokens: Annotated[  # noqa: N815 - the name that users write
        int, Field(ge=1, le=1024, json_schema_extra={"accepts": "a whole number from 1 to 1024"})
    ] = 128
    suggestions: Annotated[
        int, Field(ge=1, le=10, json_schema_extra={"accepts": "a whole number from 1 to 10"})
    ] = 3
    debounceMs: Annotated[  # noqa: N815 - the name that users write
        int, Field(ge=0, le=10_000, json_schema_extra={"accepts": "a whole number from 0 to 10000"})
    ] = 0
    maxFileBytes: Annotated[  # noqa: N815 - the name that users write
        int, Field(ge=0, json_schema_extra={"accepts": "a whole number of bytes, 0 or more"})
    ] = 2_000_000

    def engine_part(self) -> tuple[str, int]:
        """The settings that need the model to be loaded anew when they change."""
        return self.model, self.threads


def read_settings(*layers: object) -> tuple[Settings, list[str]]:
    """Settings from layers of raw client values, later ones winning, and one sentence per bad entry.

    A layer is an object of settings, or one that holds them under `hearth`; None (also as a value) means
    "not set" and is passed over.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for layer in layers:
        if layer is None:
            continue
        raw = layer.get(SECTION, layer) if isinstance(layer, Mapping) else layer
        if raw is None:
            continue
        if not isinstance(raw, Mapping):
            problems.append(f"The settings of {SECTION} are {_shown(raw)}; an object was expected.")
            continue
        for key, value in raw.items():
            if value is None or key in _CLIENT_KEYS:
                continue
            problem = _check(str(key), value)
            if problem is None:
                values[key] = value
            else:
                problems.append(problem)
    return Settings(**values), list(dict.fromkeys(problems))


def _check(key: str, value: object) -> str | None:
    field = Settings.model_fields.get(key)
    if field is None:
        near = get_close_matches(key, Settings.model_fields, n=1)
        hint = (
            f"Did you mean {SECTION}.{near[0]}?" if near else f"Known are {', '.join(Settings.model_fields)}."
        )
        return f"{SECTION}.{key} = {_shown(value)} is not a setting of Hearth and is ignored. {hint}"
    try:
        Settings.model_validate({key: value})
    except ValidationError:
        extra = field.json_schema_extra
        accepts = extra["accepts"] if isinstance(extra, dict) else ""
        return f"{SECTION}.{key} = {_shown(value)} cannot be used and is ignored; accepted is {accepts}."
    return None


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
