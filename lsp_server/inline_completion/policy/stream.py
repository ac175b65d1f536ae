"""Reading one generation, and closing it the moment a stop rule has seen enough."""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

from engine.client import EngineClient
from engine.types import FinishReason, InfillRequest, TextDelta
from lsp_server.inline_completion.policy.cursor import Cursor
from lsp_server.inline_completion.policy.line_ends import to_lf
from lsp_server.inline_completion.policy.mode import Mode
from lsp_server.inline_completion.policy.stop import Cut, find_cut


@dataclass(frozen=True)
class Generated:
    """What the model wrote for one request.

    text: all of it, LF. cut: where a stop rule ended it, None when it ended by itself.
    truncated: it ran out of tokens. mean_logprob: per token, over what the cut keeps.
    trace: plain values about time and tokens.
    """

    text: str
    cut: Cut | None
    truncated: bool
    mean_logprob: float
    trace: dict[str, Any]


async def generate(engine: EngineClient, request: InfillRequest, cursor: Cursor, mode: Mode) -> Generated:
    """Run one request. Cancelling the caller closes the stream at once. Raises HearthError."""
    started = time.perf_counter()
    first_piece_s = 0.0
    text, cut, deltas, last = "", None, [], None
    async with aclosing(engine.infill(request)) as stream:
        async for delta in stream:
            first_piece_s = first_piece_s or time.perf_counter() - started
            text += delta.text
            deltas.append(delta)
            last = delta
            # A CR may be the first half of a CRLF, so it waits for what follows.
            text = to_lf(text[:-1]) + text[-1:] if text.endswith("\r") else to_lf(text)
            cut = find_cut(text, cursor, mode, final=False)
            if cut is not None:
                break
    text = to_lf(text)
    if cut is None:
        cut = find_cut(text, cursor, mode, final=True)
    finish = last.finish if last else None
    elapsed = time.perf_counter() - started
    tokens = sum(delta.tokens for delta in deltas)
    mean = mean_logprob(deltas, cut.keep if cut else len(text))
    trace: dict[str, Any] = {
        "raw": text,
        "cut": cut.rule if cut else "",
        "finish": str(finish) if finish else "stopped by rule",
        "tokens": tokens,
        "mean_logprob": round(mean, 4),
        "first_piece_s": round(first_piece_s, 4),
        "elapsed_s": round(elapsed, 4),
        "tokens_per_second": round(tokens / elapsed, 1) if elapsed > 0 else 0.0,
    }
    if last is not None and last.timing is not None:
        trace["timing"] = asdict(last.timing)
    return Generated(text, cut, finish is FinishReason.LENGTH, mean, trace)


def mean_logprob(deltas: list[TextDelta], keep: int) -> float:
    """Mean natural-log probability per token, over the pieces that begin before `keep` characters."""
    position, tokens, total = 0, 0, 0.0
    for delta in deltas:
        if position >= keep and tokens:
            break
        tokens += delta.tokens
        total += delta.logprob
        position += len(delta.text)
    return total / tokens if tokens else 0.0
