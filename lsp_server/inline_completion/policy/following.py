"""When the user types what the model is just writing: the run that there is goes on, for the newer question.

Starting anew would cost the prompt's last tokens and every token written so far, at each key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lsp_server.inline_completion.policy.line_ends import Surroundings, surroundings, typed_between
from lsp_server.inline_completion.policy.look import Look
from lsp_server.inline_completion.policy.stream import Generated, Generation, Reader
from lsp_server.inline_completion.policy.values import Question


@dataclass
class _Run:
    """start: where the text begins. look: the question that it is read for."""

    generation: Generation
    start: Surroundings
    look: Look


class Following:
    """The generations that run for automatic questions, one a document."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}

    async def read(self, generation: Generation, look: Look) -> tuple[Look, Generated | None]:
        """The question that is read for in the end, and the text for it; None when a new run must be made.

        Cancelling the call closes the engine's stream at once. Raises HearthError.
        """
        uri = look.question.uri
        run = self._runs[uri] = _Run(generation, look.cursor, look)
        try:
            generated = await generation.read()
        finally:
            if self._runs.get(uri) is run:
                del self._runs[uri]
        return run.look, generated

    def may_follow(self, question: Question) -> bool:
        """Whether `follow` is worth a look: decided by comparing texts alone."""
        run = self._runs.get(question.uri)
        typed = typed_between(run.start, surroundings(question)) if run else None
        return run is not None and typed is not None and run.generation.agrees(typed)

    def follow(self, look: Look) -> bool:
        """Read the document's running generation for this newer question; False when it cannot serve it."""
        run = self._runs.get(look.question.uri)
        typed = typed_between(run.start, look.cursor) if run else None
        if run is None or typed is None:
            return False
        request, running = look.request(), run.generation.request
        reader = Reader(look.cursor, look.mode, request.max_tokens, typed)
        # All but the text round the cursor, which was compared, and the length, which the reader counts.
        alike = replace(request, prefix=running.prefix, suffix=running.suffix, max_tokens=running.max_tokens)
        if alike != running or not run.generation.follow(reader):
            return False
        run.look = look
        return True
