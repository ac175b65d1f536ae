"""How the daemon runs: defaults, the user's file `service.toml`, and the command line, later ones winning."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from engine import paths
from engine.backends.openai.settings import RemoteSettings, check_together
from engine.catalogue.entries import DEFAULT_MODEL
from engine.errors import SettingsError

FILE_NAME = "service.toml"

_HOST = re.compile(r"[a-z0-9_.-]+(:[0-9]{1,5})?")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9_.\[\]:-]+")


def _host(name: str) -> str:
    if not _HOST.fullmatch(name):
        raise PydanticCustomError(
            "host", "It must be names as in 'box.lan' or 'box.lan:8080', in small letters"
        )
    return name


def _origin(origin: str) -> str:
    if not _ORIGIN.fullmatch(origin):
        raise PydanticCustomError(
            "origin", "It must be origins as in 'http://localhost:3000', whole, and none of them '*'"
        )
    return origin


def _folder(path: str) -> str:
    if path and not Path(path).expanduser().is_absolute():
        raise PydanticCustomError("folder", "It must be an absolute path")
    return path


Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class Table(BaseModel):
    """A table of settings: every key known, every value of exactly its type."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class HttpSettings(Table):
    """Who may ask over HTTP beside this machine's own programs, and how much.

    allowed_hosts: names beside loopback ones that the Host header may have; without a port, with any.
    allowed_origins: web pages that may ask and read the answers, by their exact origin.
    body_mib, body_seconds: the longest body of a request, and the time in which it must have come.
    head_seconds: the time in which a request's head must have come.
    request_seconds: how long a request may take from then on; 0 sets no limit.
    """

    allowed_hosts: Annotated[tuple[Annotated[str, AfterValidator(_host)], ...], Field(strict=False)] = ()
    allowed_origins: Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], Field(strict=False)] = ()
    body_mib: Annotated[int, Field(ge=1, le=1024)] = 16
    body_seconds: Seconds = 30.0
    head_seconds: Seconds = 15.0
    request_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 0.0


class SamplingSettings(Table):
    """What requests get that leave a parameter out, in the APIs that have defaults; greedy by default."""

    temperature: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 0.0
    top_k: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] = 1.0


class CacheSettings(Table):
    """Where the KV cache survives a restart.

    disk_gib: the most that it takes on the disk, for all models together; 0 keeps it in memory alone.
    folder: "" is `kv` in the folder of caches.
    """

    disk_gib: Annotated[float, Field(ge=0, le=1 << 20, allow_inf_nan=False)] = 4.0
    folder: Annotated[str, AfterValidator(_folder)] = ""


class ServiceSettings(Table):
    """Every setting of the daemon with its default.

    model: a name of the catalogue, the path of a GGUF file, or a remote's model; loaded at the start.
    threads: 0 takes one for each physical core.
    context_tokens: the longest prompt and answer together; 0 takes a default that fits.
    max_requests: so many may wait or run; more are refused until one has ended.
    idle_minutes: the model is let go after so long without a request; 0 keeps it.
    tcp_port: listen on this port of the loopback interface too; None does not, 0 takes a free one.
    drain_seconds: how long running requests may go on when the daemon is told to end.
    remote: servers elsewhere whose models requests may name.
    """

    model: Annotated[str, Field(min_length=1)] = DEFAULT_MODEL
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    context_tokens: Annotated[int, Field(ge=0, le=1 << 24)] = 0
    max_requests: Annotated[int, Field(ge=1, le=4096)] = 64
    idle_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    tcp_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    drain_seconds: Annotated[int, Field(ge=0, le=3600)] = 20
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    http: HttpSettings = HttpSettings()
    sampling: SamplingSettings = SamplingSettings()
    cache: CacheSettings = CacheSettings()
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


_TABLES: dict[str, type[BaseModel]] = {
    "http": HttpSettings,
    "sampling": SamplingSettings,
    "cache": CacheSettings,
    "remote": RemoteSettings,
}


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
        where = "on the command line" if given.get(str(first["loc"][0])) is not None else f"in {path}"
        raise _unusable(first, where) from None


def _unusable(complaint: ErrorDetails, where: str) -> SettingsError:
    table = _TABLES.get(str(complaint["loc"][0]))
    why = "there is no such setting" if complaint["type"] == "extra_forbidden" else complaint["msg"]
    known = ", ".join((table or ServiceSettings).model_fields)
    of = f"of [{complaint['loc'][0]}] " if table else ""
    return SettingsError(
        f"The setting {_spelled(complaint['loc'])} {where} cannot be used: {why}.",
        action=f"Known {of}are {known}; docs/service.md describes them.",
    )


def _spelled(place: tuple[int | str, ...]) -> str:
    """Where a setting is, as in `remote[0].url`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")
