"""What the one who runs the application may choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from engine.types import SamplingParams

_EFFORTS = MappingProxyType(
    {"minimal": 512, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 65536}
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may cost before it reaches the engine.

    body_bytes: the longest body; 413 above.
    body_seconds: the time in which the body must have come; 408 after.
    request_seconds: how long a request may take from its body on; None for no limit.
    choices: the most generations of one request (prompts times n).
    """

    body_bytes: int = 16 << 20
    body_seconds: float = 30.0
    request_seconds: float | None = None
    choices: int = 16


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a request that does not say gets.

    sampling: for parameters of sampling left out, field by field.
    max_tokens: for chats and llama.cpp's routes without a limit; the model's window caps it further.
    effort_tokens: the reasoning tokens that each reasoning effort means.
    """

    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int = 4096
    effort_tokens: Mapping[str, int] = field(default_factory=lambda: _EFFORTS)


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask.

    token: None asks for none: for a Unix socket that only its owner can open.
    hosts: what the Host header may be beside loopback names, in small letters; without a port, with any.
    origins: values of the Origin header that are let through; no web page is without being named here.
    """

    token: str | None = None
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
