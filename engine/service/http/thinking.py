"""Whether the model reasons before it answers, and for how many tokens: one meaning for every API's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from engine.service.http.fields import Strict, Tokens
from engine.service.http.problems import BadField
from engine.service.http.settings import Defaults


class ThinkingOn(Strict):
    """display: the reasoning is given as it is, never summarised."""

    type: Literal["enabled"]
    budget_tokens: Tokens | None = None
    display: Literal["summarized"] | None = None


class ThinkingAdaptive(Strict):
    type: Literal["adaptive"]
    display: Literal["summarized"] | None = None


class ThinkingOff(Strict):
    type: Literal["disabled"]


@dataclass(frozen=True, slots=True)
class Thinking:
    """`thinking`, `thinking_optional` and `thinking_budget` of a ChatRequest."""

    on: bool | None
    optional: bool = False
    budget: int | None = None


ThinkingSwitch = Annotated[ThinkingOn | ThinkingAdaptive | ThinkingOff, Field(discriminator="type")]


def thinking_of(
    defaults: Defaults,
    *,
    switch: ThinkingSwitch | None = None,
    enabled: bool | None = None,
    effort: str | None = None,
) -> Thinking:
    """What the fields mean together. Raises BadField when they contradict.

    An effort, or the adaptive switch, only says how much: it does not ask for what a model cannot do.

    switch: the field `thinking`. enabled: `chat_template_kwargs.enable_thinking`.
    effort: a name of Defaults.effort_tokens, or "none", which switches thinking off.
    """
    said = {
        "thinking": None if switch is None else not isinstance(switch, ThinkingOff),
        "chat_template_kwargs.enable_thinking": enabled,
        "reasoning_effort": None if effort is None else effort != "none",
    }
    values = {field: value for field, value in said.items() if value is not None}
    if len(set(values.values())) > 1:
        raise BadField(" and ".join(values), "One switches thinking on, the other off.")
    thinking = next(iter(values.values()), None)
    if not thinking:
        return Thinking(thinking)
    budget = switch.budget_tokens if isinstance(switch, ThinkingOn) else None
    if budget is None and effort is not None:
        budget = defaults.effort_tokens[effort]
    demanded = isinstance(switch, ThinkingOn) or bool(enabled)
    return Thinking(True, not demanded, budget)
