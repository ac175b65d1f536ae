"""The suggestions that were answered, until the editor says what became of them."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass

from lsp_server.inline_completion.policy.latest import Latest
from lsp_server.inline_completion.policy.look import Look
from lsp_server.inline_completion.policy.place import fit_selected
from lsp_server.inline_completion.policy.values import Suggestion


@dataclass(frozen=True)
class Offer:
    """A suggestion, and what is needed to go on from it: `text` replaces `covers` characters of suffix."""

    look: Look
    text: str
    covers: int
    insert_text: str

    @property
    def uri(self) -> str:
        return self.look.question.uri


class Offers:
    """The latest offers by their suggestion's id, and counts of what became of all."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self._offers: Latest[Offer] = Latest()

    def __len__(self) -> int:
        return len(self._offers)

    def make(self, look: Look, text: str, covers: int) -> Suggestion | None:
        """The suggestion as the editor is to apply it; None when it cannot stand with the selected entry."""
        question = look.question
        start = end = question.offset
        insert_text = text
        if question.selected is not None:
            fitted = fit_selected(text, covers, look.cursor)
            if fitted is None:
                return None
            text, covers = fitted, 0
            start, end = question.selected.start, question.selected.end
            insert_text = question.selected.text + text
        suggestion = Suggestion(uuid.uuid4().hex, insert_text, start, end + covers)
        self._offers[suggestion.id] = Offer(look, text, covers, insert_text)
        return suggestion

    def get(self, suggestion_id: str) -> Offer | None:
        """The offer, while it is open."""
        return self._offers.get(suggestion_id)

    def settle(self, suggestion_id: str) -> Offer | None:
        """The offer, which is open no longer."""
        return self._offers.pop(suggestion_id)

    def forget(self, uri: str) -> None:
        """Drop a document's offers."""
        for suggestion_id in [key for key, offer in self._offers.items() if offer.uri == uri]:
            self._offers.pop(suggestion_id)
