"""Errors on their way from the daemon to its clients: {"error": {"kind", "what", "meaning", "action"}}.

A busy engine's have "retry_after" too, in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine import errors
from engine.errors import EngineBusy, HearthError

_CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type)]
_KINDS = {kind.code: kind for kind in _CLASSES if issubclass(kind, HearthError)}


def error_to_json(error: HearthError) -> dict[str, object]:
    """The object that holds an error."""
    told: dict[str, object] = {
        "kind": error.code,
        "what": error.what,
        "meaning": error.meaning,
        "action": error.action,
    }
    if isinstance(error, EngineBusy):
        told["retry_after"] = error.retry_after
    return {"error": told}


def error_from_json(value: object) -> HearthError | None:
    """The error that an answer holds, of the class it had on the other side; None when it holds none."""
    if not isinstance(value, Mapping) or not isinstance(value.get("error"), Mapping):
        return None
    told = {key: str(value["error"].get(key, "")) for key in ("kind", "what", "meaning", "action")}
    kind = _KINDS.get(told["kind"], HearthError)
    error = kind(told["what"], meaning=told["meaning"], action=told["action"])
    seconds = value["error"].get("retry_after")
    if isinstance(error, EngineBusy) and isinstance(seconds, int | float):
        error.retry_after = float(seconds)
    return error
