"""What became of a document's last request, for `hearth.explain`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Explanation:
    """Filled in as the request goes on.

    outcome: "waiting", "shown" (items were sent), "nothing", "stale", "cancelled", "superseded" or "failed".
    reason: for people. trace: the policy's own record, plain values.
    """

    uri: str
    version: int
    line: int
    character: int
    outcome: str = "waiting"
    reason: str = "The request has not been answered yet."
    suggestions: int = 0
    trace: dict[str, Any] = field(default_factory=dict)

    def settle(self, outcome: str, reason: str, *, suggestions: int = 0) -> None:
        """The request is over."""
        self.outcome, self.reason, self.suggestions = outcome, reason, suggestions

    def as_text(self) -> str:
        """A short readable account."""
        lines = [
            f"Last request: line {self.line + 1}, column {self.character + 1}, version {self.version}.",
            f"Outcome: {self.outcome}. {self.reason}".rstrip(),
        ]
        if self.suggestions:
            lines.append(f"Suggestions sent: {self.suggestions}.")
        lines += [f"{key}: {_plain(value)}" for key, value in self.trace.items()]
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        """The same, structured."""
        return {
            "uri": self.uri,
            "version": self.version,
            "position": {"line": self.line, "character": self.character},
            "outcome": self.outcome,
            "reason": self.reason,
            "suggestions": self.suggestions,
            "trace": self.trace,
        }


def _plain(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


class Explanations:
    """The last explanation of each document, and which document came last."""

    def __init__(self) -> None:
        self._by_uri: dict[str, Explanation] = {}
        self._last_uri: str | None = None

    def start(self, explanation: Explanation) -> None:
        """A new request replaces what was kept of its document's last one."""
        self._by_uri[explanation.uri] = explanation
        self._last_uri = explanation.uri

    def latest(self, uri: str | None = None) -> Explanation | None:
        """Of the document, or of the last request anywhere."""
        return self._by_uri.get(uri or self._last_uri or "")

    def forget(self, uri: str) -> None:
        """The document was closed."""
        self._by_uri.pop(uri, None)
