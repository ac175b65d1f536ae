"""What every handler works with."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import ModelNotFound
from engine.service.http.problems import BadField
from engine.service.http.settings import Defaults, Limits
from engine.service.served import Served, ServedModel


@dataclass(frozen=True, slots=True)
class Service:
    """The engine, and what requests may cost and get."""

    engine: Served
    limits: Limits
    defaults: Defaults

    async def model(self, asked: str) -> ServedModel:
        """The model of that name or alias. Raises ModelNotFound, which names those that are there."""
        models = await self.engine.models()
        for model in models:
            if asked == model.name or asked in model.aliases:
                return model
        names = ", ".join(model.name for model in models) or "none"
        raise ModelNotFound(f"There is no model {asked[:100]!r}.", action=f"Models that are there: {names}.")

    def check_choices(self, prompts: int, n: int) -> None:
        """Raises BadField when a request asks for too many generations at once."""
        if prompts * n > self.limits.choices:
            raise BadField(
                "n" if n > 1 else "prompt",
                f"The request asks for {prompts * n} generations; at most {self.limits.choices} run at once.",
            )
