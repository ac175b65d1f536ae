"""How the daemon runs: defaults, the user's file `service.toml`, and the command line, later ones winning."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from engine import paths
from engine.backends.openai.settings import RemoteSettings, check_together
from engine.catalogue.entries import DEFAULT_MODEL
from engine.errors import SettingsError

FILE_NAME = "service.toml"


class ServiceSettings(BaseModel):
    """Every setting of the daemon with its default.

    model: a name of the catalogue, the path of a GGUF file, or a remote's model; loaded at the start.
    threads: 0 takes one for each physical core.
    context_tokens: the longest prompt and answer together; 0 takes a default that fits.
    idle_minutes: the model is let go after so long without a request; 0 keeps it.
    tcp_port: listen on this port of the loopback interface too; None does not, 0 takes a free one.
    drain_seconds: how long running requests may go on when the daemon is told to end.
    remote: servers elsewhere whose models requests may name.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    model: Annotated[str, Field(min_length=1)] = DEFAULT_MODEL
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    context_tokens: Annotated[int, Field(ge=0, le=1 << 24)] = 0
    idle_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=False)] = 30.0
    tcp_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    drain_seconds: Annotated[int, Field(ge=0, le=3600)] = 20
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    remote: Annotated[list[RemoteSettings], Field(max_length=32)] = []

    @field_validator("remote")
    @classmethod
    def _together(cls, remotes: list[RemoteSettings]) -> list[RemoteSettings]:
        check_together(remotes)
        return remotes

    @property
    def remote_model(self) -> RemoteSettings | None:
        """The remote whose model is the default; None when that is a model of this machine."""
        return next((remote for remote in self.remote if self.model in remote.models), None)


def settings_file() -> Path:
    """Where the user's file is, or would be."""
    return paths.config_dir(create=False) / FILE_NAME


def read_settings(given: dict[str, object]) -> ServiceSettings:
    """The settings in force; `given` comes from the command line, with None for what was not said.

    Raises SettingsError, which names the setting and the file.
    """
    path = settings_file()
    try:
        values: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        values = {}
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{path} cannot be read: {error}.",
            action="Mend the file or delete it; docs/service.md describes it.",
        ) from error
    values |= {name: value for name, value in given.items() if value is not None}
    try:
        return ServiceSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"][:1])
        where = "on the command line" if given.get(name) is not None else f"in {path}"
        known = RemoteSettings.model_fields if name == "remote" else ServiceSettings.model_fields
        raise SettingsError(
            f"The setting {_spelled(first['loc'])} {where} cannot be used: {first['msg']}.",
            action=f"Known are {', '.join(known)}; docs/service.md describes them.",
        ) from None


def _spelled(place: tuple[int | str, ...]) -> str:
    """Where a setting is, as in `remote[0].url`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")
