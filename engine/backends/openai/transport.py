"""httpx as a remote is asked through it: one pool, nothing taken from the environment, failures in words."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import httpx2

from engine.backends.openai.failures import MalformedAnswer, Refused, broke_off, unreachable
from engine.backends.openai.key import read_key
from engine.backends.openai.settings import RemoteSettings
from engine.errors import EngineBusy, HearthError, SettingsError

CONNECTIONS = 64
"""At once, to one remote."""


async def open_client(settings: RemoteSettings) -> httpx2.AsyncClient:
    """The pool of connections of one remote; opens none yet.

    Raises SettingsError when its key or its certificates cannot be read.
    """
    headers = {"accept-encoding": "identity", "user-agent": "hearth"}
    if settings.key is not None:
        key = await asyncio.to_thread(read_key, settings.key, settings.name)
        headers["authorization"] = f"Bearer {key}"
    return httpx2.AsyncClient(
        headers=headers,
        verify=await asyncio.to_thread(_trusted, settings),
        timeout=httpx2.Timeout(
            settings.read_seconds, connect=settings.connect_seconds, pool=settings.connect_seconds
        ),
        limits=httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=8),
        follow_redirects=False,
        trust_env=False,  # no proxy, no netrc: code goes to the address of the settings alone
    )


def _trusted(settings: RemoteSettings) -> ssl.SSLContext | bool:
    """The certificates that are trusted: the system's, or those of a file alone. Raises SettingsError."""
    if settings.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(Path(settings.ca_file).expanduser()))
    except (OSError, ssl.SSLError):
        raise SettingsError(
            f"The setting ca_file of the remote {settings.name} names a file without certificates.",
            action="Give it a file of certificates in PEM form.",
        ) from None


def lost(error: httpx2.TransportError, settings: RemoteSettings, *, begun: bool) -> HearthError:
    """What a failure of the network means. begun: a piece of the answer had come."""
    name = settings.name
    if isinstance(error, httpx2.PoolTimeout):
        return EngineBusy(
            f"All {CONNECTIONS} connections to the remote {name} are in use.", action="Try again."
        )
    if isinstance(error, httpx2.ReadTimeout):
        silent = f"was silent for {settings.read_seconds:g} s"
        return broke_off(name, f"it {silent}") if begun else unreachable(name, silent, retriable=False)
    if begun:
        return broke_off(name)
    if _is_about_certificate(error):
        return Refused(
            f"The certificate of the remote {name} cannot be verified.",
            meaning="Something else may answer in its place, so nothing was sent.",
            action="Set `ca_file` in service.toml to the certificate of your own authority, if you have one.",
        )
    if isinstance(error, httpx2.ConnectTimeout):
        return unreachable(name, f"cannot be connected to within {settings.connect_seconds:g} s")
    if isinstance(error, httpx2.ConnectError):
        return unreachable(name, "cannot be connected to")
    return unreachable(name, "closed the connection before it answered")


def _is_about_certificate(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


async def read_body(response: httpx2.Response, most: int, *, cut: bool = False) -> bytes:
    """The body of an answer; with cut, its beginning. Raises MalformedAnswer when it is longer."""
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > most:
            if cut:
                break
            raise MalformedAnswer(f"its answer is longer than {most} bytes")
    return bytes(body[:most])


def json_object(data: str) -> dict[str, Any]:
    """The object that an event's data is. Raises MalformedAnswer."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise MalformedAnswer("an event of its stream is not JSON") from None
    if not isinstance(value, dict):
        raise MalformedAnswer("an event of its stream is not an object")
    return value
