"""A question as the rules see it, before the engine is asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engine.types import InfillRequest
from lsp_server.inline_completion.policy.cache import Hit
from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.infill import infill_request
from lsp_server.inline_completion.policy.mode import Mode, decide_mode
from lsp_server.inline_completion.policy.values import Question


@dataclass(frozen=True)
class Look:
    """hits: what memory has. silent: why nothing is to be asked, or None. trace: see Answer."""

    question: Question
    cursor: Cursor
    hits: list[Hit]
    silent: str | None
    trace: dict[str, Any]

    @property
    def mode(self) -> Mode:
        return self._decision[0]

    @property
    def mode_rule(self) -> str:
        """The name of the rule that chose the mode."""
        return self._decision[1]

    @cached_property
    def _decision(self) -> tuple[Mode, str]:
        return decide_mode(self.cursor, self.question.mode, self.question.invoked)

    def request(self, sample: int = 0) -> InfillRequest:
        """What the engine is asked; see `infill_request`."""
        return infill_request(self.question, self.cursor, self.mode, sample=sample)
