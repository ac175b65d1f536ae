"""The request that a question becomes."""

from __future__ import annotations

from engine.types import InfillRequest, Priority, SamplingParams
from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.mode import Mode
from lsp_server.inline_completion.policy.values import Question

# A line of code has a median of 19 characters and a 95th percentile of 73: about 25 tokens.
SINGLE_LINE_TOKENS = 32
# Alternatives have to differ, yet stay near what the model holds likely.
ALTERNATIVE_TEMPERATURE = 0.7
ALTERNATIVE_TOP_P = 0.95


def infill_request(question: Question, cursor: Cursor, mode: Mode, *, sample: int = 0) -> InfillRequest:
    """The engine's request; sample 0 is greedy, the others are drawn with their number as seed.

    No stop strings: the stop rules end the text, and the engine stops within one token for them. So a run
    for one mode can be read on in the other.
    """
    single = mode is Mode.SINGLE
    return InfillRequest(
        prefix=cursor.prefix,
        suffix=cursor.suffix,
        path=question.path,
        context=question.context,
        session=question.uri,
        max_tokens=min(SINGLE_LINE_TOKENS, question.max_tokens) if single else question.max_tokens,
        sampling=_sampling(sample),
        priority=Priority.COMPLETION,
    )


def _sampling(sample: int) -> SamplingParams:
    if sample == 0:
        return SamplingParams()
    return SamplingParams(temperature=ALTERNATIVE_TEMPERATURE, top_p=ALTERNATIVE_TOP_P, seed=sample)
