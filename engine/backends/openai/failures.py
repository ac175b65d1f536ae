"""What can go wrong between a remote and us, and what its HTTP statuses mean.

`Unreachable` is the one kind for which another server, or the model of this machine, may answer instead:
nothing of an answer had come. All others are the request's own, or the settings'.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from engine.errors import (
    DeadlineExceeded,
    EngineBusy,
    EngineUnavailable,
    HearthError,
    ModelNotFound,
    PromptTooLong,
    RequestError,
)

_LONGEST_WORDS = 500
DEFAULT_RETRY_AFTER = 1.0
_TOO_LONG = re.compile(
    r"maximum context length|context window|longer than the model's context|too many tokens", re.I
)


class MalformedAnswer(Exception):
    """An answer that is not what the API promises; the words say in what way, and quote nothing of it."""


class Unreachable(EngineUnavailable):
    """The remote did not begin to answer.

    retriable: whether the same request may be sent once more.
    """

    def __init__(self, what: str, *, meaning: str = "", action: str = "", retriable: bool = True) -> None:
        super().__init__(what, meaning=meaning, action=action)
        self.retriable = retriable


class Refused(EngineUnavailable):
    """The remote answers, but not to us as we are set up: its key, address or certificate is wrong."""


def unreachable(remote: str, why: str, *, retriable: bool = True) -> Unreachable:
    """why: goes on after "The remote NAME "."""
    return Unreachable(
        f"The remote {remote} {why}.",
        meaning="Its models cannot be used now; those of this machine can.",
        action="Run `hearth doctor`; the next request tries it again.",
        retriable=retriable,
    )


def broke_off(remote: str, why: str = "the connection was lost") -> EngineUnavailable:
    """An answer that ended before its end."""
    return EngineUnavailable(
        f"The answer of the remote {remote} broke off: {why}.",
        meaning="What had come of it may not be whole.",
        action="Try again; if it happens again, look at the remote's own log.",
    )


def malformed(remote: str, why: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"The remote {remote} does not answer as OpenAI's API does: {why}.",
        action="Check that `url` and `server` in service.toml fit what runs there.",
    )


def wrong_status(
    remote: str, path: str, model: str, status: int, headers: Mapping[str, str], body: bytes
) -> HearthError:
    """The error that an answer with another status than 200 means.

    model: the remote's name for it. body: as much of it as was read; its words go to who asked, into no log.
    """
    words, code = _told(body)
    said = f": {words}" if words else "."
    if 300 <= status < 400:
        return Refused(
            f"The remote {remote} answers with a redirect (HTTP {status}), which is not followed.",
            meaning="Code is sent to the address of the settings alone.",
            action="Set `url` in service.toml to the final address.",
        )
    if status in (401, 403):
        return Refused(
            f"The remote {remote} refuses the key (HTTP {status}).",
            action="Set the right one where `key` in service.toml says, then run `hearth stop`.",
        )
    if status == 404:
        if model and (code == "model_not_found" or "model" in words.lower()):
            return ModelNotFound(
                f"The remote {remote} has no model {model}.",
                action="Run `hearth doctor`: it lists those that it has; then mend `models` in service.toml.",
            )
        return malformed(remote, f"it has no route {path} (HTTP 404)")
    if status == 408:
        return DeadlineExceeded(
            f"The remote {remote} gave up on the request (HTTP 408).", action="Try again."
        )
    if status == 429:
        return EngineBusy(
            f"The remote {remote} has too many requests.",
            action="Try again in a moment.",
            retry_after=_retry_after(headers),
        )
    if status in (502, 503, 504):
        return unreachable(remote, f"does not serve now (HTTP {status})")
    if 400 <= status < 500:
        kind = PromptTooLong if code == "context_length_exceeded" or _TOO_LONG.search(words) else RequestError
        return kind(f"The remote {remote} refuses the request (HTTP {status}){said}")
    return EngineUnavailable(
        f"The remote {remote} failed on the request (HTTP {status}){said}",
        action="Look at the remote's own log.",
    )


def told_in_stream(remote: str, error: object) -> HearthError:
    """The error that an event of a stream tells."""
    words, _ = _words_of(error)
    return EngineUnavailable(
        f"The remote {remote} failed on the request{f': {words}' if words else '.'}",
        action="Look at the remote's own log.",
    )


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds, which may be told as a date; nonsense counts as the default."""
    value = headers.get("retry-after", "")
    if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", value, re.ASCII):
        return float(value)
    try:
        date = parsedate_to_datetime(value)
        return max(0.0, (date - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return DEFAULT_RETRY_AFTER


def _told(body: bytes) -> tuple[str, str]:
    """An error's words and its code, as OpenAI's API, vLLM and FastAPI write them."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return "", ""
    if not isinstance(value, dict):
        return "", ""
    return _words_of(value.get("error", value))


def _words_of(error: object) -> tuple[str, str]:
    if isinstance(error, str):
        return _plain(error), ""
    if not isinstance(error, dict):
        return "", ""
    words = next((error[name] for name in ("message", "detail") if isinstance(error.get(name), str)), "")
    code = error.get("code")
    return _plain(words), code if isinstance(code, str) else ""


def _plain(words: str) -> str:
    """Without what could confuse a terminal or fill a screen."""
    text = "".join(character if character.isprintable() else " " for character in words[:_LONGEST_WORDS])
    return text.strip()
