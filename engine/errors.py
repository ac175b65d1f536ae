"""Errors that a person can act on. Every failure that reaches a user is one of these."""

from __future__ import annotations

from typing import Self


class HearthError(Exception):
    """A failure told as: what happened, what it means, what to do.

    Args:
        what: one sentence in plain words; the fact, with names and numbers.
        meaning: what this costs the user, or "" when that is plain.
        action: what to do now, as a command or a setting where there is one.
    """

    code = "error"

    def __init__(self, what: str, *, meaning: str = "", action: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.meaning = meaning
        self.action = action

    def __str__(self) -> str:
        return " ".join(part for part in (self.what, self.meaning, self.action) if part)

    def again(self) -> Self:
        """The same failure for one more request: a raised exception collects its raiser's traceback."""
        copy = type(self).__new__(type(self), *self.args)
        copy.__dict__.update(self.__dict__)
        return copy


class ModelFileError(HearthError):
    """A model file is missing, truncated, corrupt or of a kind that Hearth cannot run."""

    code = "model-file"


class DownloadError(HearthError):
    """No source gave the model, or it came with the wrong size or hash."""

    code = "download"


class SettingsError(HearthError):
    """A setting has a value that Hearth cannot use."""

    code = "settings"


class RequestError(HearthError):
    """A request that the engine cannot serve as it stands (too long, unsupported by this model)."""

    code = "request"


class EngineUnavailable(HearthError):
    """The engine is not running, is still loading, or was shut down."""

    code = "engine-unavailable"


class PromptTooLong(RequestError):
    """The prompt does not fit the model's window; `what` says by how many tokens."""

    code = "prompt-too-long"


class ModelNotFound(RequestError):
    """The request names a model that is not there."""

    code = "model-not-found"


class EngineBusy(HearthError):
    """The engine's queue is full; the request was not started.

    retry_after: seconds after which it is worth trying again.
    """

    code = "engine-busy"

    def __init__(self, what: str, *, meaning: str = "", action: str = "", retry_after: float = 1.0) -> None:
        super().__init__(what, meaning=meaning, action=action)
        self.retry_after = retry_after


class DeadlineExceeded(HearthError):
    """The request took longer than it was given, and had nothing to show by then."""

    code = "deadline"
