"""Failures as HTTP statuses, told in the words and the shape of the API that was asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from starlette.responses import JSONResponse

from engine.errors import (
    DeadlineExceeded,
    EngineBusy,
    EngineUnavailable,
    HearthError,
    ModelFileError,
    ModelNotFound,
    PromptTooLong,
    RequestError,
)
from engine.service.wire import error_to_json


class BadField(RequestError):
    """A request with a field that is unknown, not supported, or has a value that cannot be used.

    field: its path, such as "messages.0.content".
    error_code: a word by which Anthropic's clients know how to go on without it, if there is one.
    """

    def __init__(self, field: str, why: str, *, action: str = "", error_code: str = "") -> None:
        super().__init__(f"{field}: {why}" if field else why, action=action)
        self.field = field
        self.error_code = error_code


class Api(Enum):
    """The shapes that errors come in."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    LLAMA_CPP = "llama.cpp"
    HEARTH = "hearth"


def api_of(path: str) -> Api:
    """The API that a path belongs to."""
    if path.startswith("/hearth/"):
        return Api.HEARTH
    if path.startswith("/v1/messages"):
        return Api.ANTHROPIC
    return Api.OPENAI if path.startswith("/v1/") else Api.LLAMA_CPP


@dataclass(frozen=True, slots=True)
class Problem:
    """A failure and its HTTP status."""

    status: int
    error: HearthError

    @property
    def field(self) -> str | None:
        return self.error.field or None if isinstance(self.error, BadField) else None


_STATUS: tuple[tuple[type[HearthError], int], ...] = (
    (ModelNotFound, 404),
    (RequestError, 400),
    (EngineBusy, 429),
    (EngineUnavailable, 503),
    (ModelFileError, 503),
    (DeadlineExceeded, 504),
)


def problem_of(error: HearthError) -> Problem:
    """An expected failure; one that is nobody's fault outside is a 500."""
    return Problem(next((status for kind, status in _STATUS if isinstance(error, kind)), 500), error)


def internal_problem(error: BaseException) -> Problem:
    """A fault of our own: its words stay in here, for they may quote the request."""
    return Problem(
        500,
        HearthError(
            f"Hearth failed on this request ({type(error).__name__}).",
            action="Run `hearth logs`; report it if it happens again.",
        ),
    )


_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}

_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}

_LLAMA_CPP_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    503: "unavailable_error",
}


def _named(types: dict[int, str], status: int, fault: str) -> str:
    return types.get(status, "invalid_request_error" if status < 500 else fault)


def openai_error(problem: Problem) -> dict[str, object]:
    """The value of "error", as in OpenAI's API."""
    code: str | None = None
    if isinstance(problem.error, PromptTooLong):
        code = "context_length_exceeded"
    elif isinstance(problem.error, ModelNotFound):
        code = "model_not_found"
    elif problem.status == 401:
        code = "invalid_api_key"
    return {
        "message": str(problem.error),
        "type": _named(_OPENAI_TYPES, problem.status, "server_error"),
        "param": problem.field,
        "code": code,
    }


def error_body(api: Api, problem: Problem) -> dict[str, object]:
    """The whole answer: JSON for an error response, or for an error event in a stream."""
    error = problem.error
    told: dict[str, object]
    match api:
        case Api.OPENAI:
            return {"error": openai_error(problem)}
        case Api.ANTHROPIC:
            kind = _named(_ANTHROPIC_TYPES, problem.status, "api_error")
            told = {"type": kind, "message": str(error)}
            if isinstance(error, BadField) and error.error_code:
                told["details"] = {"error_code": error.error_code}
            return {"type": "error", "error": told}
        case Api.LLAMA_CPP:
            kind = _named(_LLAMA_CPP_TYPES, problem.status, "server_error")
            return {"error": {"code": problem.status, "message": str(error), "type": kind}}
        case Api.HEARTH:
            return error_to_json(error)


def error_response(api: Api, problem: Problem, *, close: bool = False) -> JSONResponse:
    """close: end the connection after it, for the request's body was not read."""
    headers = {"connection": "close"} if close else {}
    if isinstance(problem.error, EngineBusy):
        headers["retry-after"] = str(max(1, math.ceil(problem.error.retry_after)))
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(error_body(api, problem), problem.status, headers)
