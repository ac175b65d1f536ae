"""Sampling parameters in the words of OpenAI's API and its extensions."""

from __future__ import annotations

from engine.backends.openai.dialects import Dialect
from engine.errors import RequestError
from engine.types import SamplingParams

_DEFAULTS = SamplingParams()


def cannot(remote: str, what: str, *, action: str = "") -> RequestError:
    """A request that asks for what the remote's kind of server does not offer."""
    return RequestError(
        f"The remote {remote} cannot do this: {what}.",
        action=action or "Leave it out, or use a model of this machine.",
    )


def sampling_fields(params: SamplingParams, dialect: Dialect, remote: str) -> dict[str, object]:
    """The fields of a request. Raises RequestError for parameters that the server does not have.

    A remote's penalties look at the whole text, whatever the window, which is a matter of our own sampler: a
    window that was asked for together with a penalty is refused.
    """
    fields: dict[str, object] = {"temperature": params.temperature, "top_p": params.top_p}
    fields["presence_penalty"] = params.presence_penalty
    fields["frequency_penalty"] = params.frequency_penalty
    if params.seed is not None:
        fields["seed"] = params.seed
    penalised = params.repetition_penalty != 1.0 or params.presence_penalty or params.frequency_penalty
    if penalised and params.penalty_window != _DEFAULTS.penalty_window:
        raise cannot(remote, "a window for penalties")
    if dialect.sampling_extras:
        fields["top_k"] = params.top_k or dialect.top_k_off
        fields["min_p"] = params.min_p
        fields["repetition_penalty"] = params.repetition_penalty
        return fields
    for name in ("top_k", "min_p", "repetition_penalty"):
        if getattr(params, name) != getattr(_DEFAULTS, name):
            raise cannot(remote, name)
    return fields
