"""A `[[remote]]` of service.toml, checked; docs/service.md describes it for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from engine.backends.openai.addresses import checked_private_host, checked_url
from engine.backends.openai.dialects import Server
from engine.backends.openai.fim_names import FIM_WAYS
from engine.backends.openai.key import checked_reference

_STRICT = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:+-]{0,63}$")]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False, strict=False)]


def _server(value: object) -> object:
    return Server(value) if isinstance(value, str) and value in list(Server) else value


def _urls(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _model(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _reference(value: str) -> str:
    try:
        return checked_reference(value)
    except ValueError as error:
        raise PydanticCustomError("key", "{why}", {"why": str(error)}) from None


def _private(value: str) -> str:
    try:
        return checked_private_host(value)
    except ValueError as error:
        raise PydanticCustomError("plain_http", "{why}", {"why": str(error)}) from None


class RemoteModelSettings(BaseModel):
    """One model of a remote.

    name: what the remote calls it.
    fim: "auto" infers the fill-in-the-middle format from the name; a family of `engine.prompts.families`
        names it; "suffix" has the server fill the hole itself, by the field `suffix`; "none".
    """

    model_config = _STRICT

    name: Annotated[str, Field(min_length=1, max_length=256)]
    fim: Literal[FIM_WAYS] = "auto"  # type: ignore[valid-type]  # the names are a table's keys


class RemoteSettings(BaseModel):
    """One remote server, or several that serve the same models.

    name: for people, in messages and metrics.
    url: tried in order; requests go to the first that answers.
    server: which extensions of OpenAI's API it understands.
    key: where the key is: "env:NAME" or "keyring:SERVICE/USER".
    models: the name that requests use, and the model that is meant.
    fallback: the model of this machine that answers while the remote is down.
    plain_http: private hosts that may be asked without TLS.
    ca_file: certificates to trust instead of the system's.
    connect_seconds: to connect. read_seconds: the longest silence before and within an answer.
    retries: of requests whose answer has not begun.
    prompt_tokens: of completions that do not say; about as many are sent.
    """

    model_config = _STRICT

    name: Name
    plain_http: Sequence[Annotated[str, AfterValidator(_private)]] = ()
    url: Annotated[list[str], BeforeValidator(_urls), Field(min_length=1, max_length=16)]
    server: Annotated[Server, BeforeValidator(_server)] = Server.VLLM
    key: Annotated[str, AfterValidator(_reference)] | None = None
    models: Annotated[
        dict[Name, Annotated[RemoteModelSettings, BeforeValidator(_model)]],
        Field(min_length=1, max_length=64),
    ]
    fallback: Annotated[str, Field(min_length=1)] | None = None
    ca_file: Annotated[str, Field(min_length=1)] | None = None
    connect_seconds: Seconds = 5.0
    read_seconds: Seconds = 60.0
    retries: Annotated[int, Field(ge=0, le=10)] = 2
    prompt_tokens: Annotated[int, Field(ge=64, le=1 << 20)] = 2048

    @field_validator("url")
    @classmethod
    def _checked(cls, urls: list[str], info: ValidationInfo) -> list[str]:
        # `plain_http` comes first among the fields, so that it is there; it is not when it was wrong itself.
        try:
            return [checked_url(url, info.data.get("plain_http", ())) for url in urls]
        except ValueError as error:
            raise PydanticCustomError("url", "{why}", {"why": str(error)}) from None

    @field_validator("ca_file")
    @classmethod
    def _is_file(cls, path: str | None) -> str | None:
        if path is not None and not Path(path).expanduser().is_file():
            raise PydanticCustomError("ca_file", "there is no such file")
        return path


def check_together(remotes: Sequence[RemoteSettings]) -> None:
    """Raises PydanticCustomError when two remotes contradict each other."""
    names = [remote.name for remote in remotes]
    models = [model for remote in remotes for model in remote.models]
    for kind, all_names in (("remote", names), ("model", models)):
        for name in all_names:
            if all_names.count(name) > 1:
                raise PydanticCustomError(
                    "twice", "the {kind} {name} is there twice", {"kind": kind, "name": name}
                )
    for remote in remotes:
        if remote.fallback in models:
            raise PydanticCustomError(
                "fallback",
                "the fallback of {remote} must be a model of this machine, and {name} is a remote's",
                {"remote": remote.name, "name": remote.fallback or ""},
            )
