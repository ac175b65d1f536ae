"""Fields that OpenAI's APIs share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.service.http.fields import (
    Ignored,
    MinP,
    Name,
    Penalty,
    RepetitionPenalty,
    Seed,
    Strict,
    Temperature,
    TopK,
    TopP,
    Unsupported,
    sampling,
)
from engine.service.http.settings import Defaults
from engine.types import SamplingParams

TopLogprobs = Annotated[int, Field(ge=0, le=20)]
Choices = Annotated[int, Field(ge=1, le=128)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class StreamOptions(Strict):
    include_usage: bool = False
    include_obfuscation: Ignored = None


class Sampled(Strict):
    """Sampling parameters, those that only local engines have included."""

    model: Name
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: RepetitionPenalty | None = None
    seed: Seed | None = None
    logit_bias: Unsupported = None
    user: Ignored = None

    def params(self, defaults: Defaults) -> SamplingParams:
        return sampling(
            defaults,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            repetition_penalty=self.repetition_penalty,
            seed=self.seed,
        )
