"""A question as the rules see it, before the engine is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lsp_server.inline_completion.policy.cache import Hit
from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.mode import Mode
from lsp_server.inline_completion.policy.values import Question


@dataclass(frozen=True)
class Look:
    """hits: what memory has. silent: why nothing is to be asked, or None. trace: see Answer."""

    question: Question
    cursor: Cursor
    mode: Mode
    hits: list[Hit]
    silent: str | None
    trace: dict[str, Any]
