"""Fill-in-the-middle prompts within a token budget.

Of the tokens that the markers leave, the prefix gets 65 %, the suffix 20 % and other files 15 % (75 and
25 % where there are none to show); what one part does not need goes to the others. Shares are rounded so
that typing does not shift them with every key. Other files are shown only to families with a
repository-level format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import RequestError
from engine.prompts.families import FimFormat, FimOrder
from engine.prompts.healing import heal
from engine.prompts.window import (
    STEADY_CHARACTERS,
    Window,
    clip_length,
    count_up_to,
    prefix_window,
    steady,
    suffix_window,
)
from engine.tokenizer import Tokenizer
from engine.types import ContextFile, InfillRequest

_SHARES_WITH_CONTEXT = (0.65, 0.20, 0.15)
_SHARES_ALONE = (0.75, 0.25, 0.0)
_GRAINS = 8  # the prefix's need is rounded up to eighths of the budget
_LEAST_BODY = 8
_LEAST_FILE = 32  # a context file with less room than this is left out
# The request does not name its repository; the format wants some name there.
_REPOSITORY_NAME = "workspace"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt and what went into it.

    ids: all token ids, at most the budget.
    n_prefix, n_suffix, n_context: tokens of the document's prefix and suffix and of other files.
    prefix_start, suffix_end: the part of the request's prefix and suffix that is shown.
    context_paths: the other files shown, in order.
    order: which part comes first.
    stop_ids: ids that end the middle.
    forced_bytes: with healing, what the first generated tokens must spell; not part of the suggestion,
        since the document already has these characters. b"" otherwise.
    """

    ids: list[int]
    n_prefix: int
    n_suffix: int
    n_context: int
    prefix_start: int
    suffix_end: int
    context_paths: tuple[str, ...]
    order: FimOrder
    stop_ids: frozenset[int]
    forced_bytes: bytes = b""


def build_infill(
    request: InfillRequest,
    tokenizer: Tokenizer,
    family: FimFormat,
    budget_tokens: int,
    order: FimOrder | None = None,
    *,
    healing: bool = False,
) -> Prompt:
    """The prompt for a hole in a document.

    budget_tokens: the most tokens the prompt may have.
    order: None takes the family's own; one that the family cannot use is refused.
    healing: back up to the start of the identifier before the cursor; see `Prompt.forced_bytes`.
    Raises RequestError when the order is not the family's or the budget cannot hold a prompt.
    """
    order = order or family.family.order
    if order not in family.family.orders:
        raise RequestError(
            f"The {family.family.name} format has no {order.value.upper()} order.",
            action=f"Use {family.family.order.value.upper()}.",
        )
    frame = _Frame(tokenizer, family, request)
    body = budget_tokens - frame.length
    if body < _LEAST_BODY:
        raise RequestError(
            f"A prompt budget of {budget_tokens} tokens is too small: "
            f"this model's fill-in-the-middle format alone takes {frame.length}.",
            action="Raise the prompt budget.",
        )

    # The request promises LF; a CR that slipped through would cost quality, so it is checked here once more.
    prefix, suffix = _lf(request.prefix), _lf(request.suffix)
    context = request.context if frame.shows_files else ()
    n_prefix, n_suffix, n_context = _shares(tokenizer, prefix, suffix, frame.lead, context, body)

    before = prefix_window(tokenizer, prefix, n_prefix, frame.lead)
    # Formats are untrained on an empty suffix; a newline is the least that a file can end with.
    after = suffix_window(tokenizer, suffix, n_suffix) if suffix else Window(tokenizer.encode("\n"), 0, 0)
    files, paths = _context_ids(tokenizer, family, context, n_context)

    before_ids, forced = heal(before.ids, tokenizer) if healing else (before.ids, b"")
    ids = frame.start + files + frame.current_file + frame.assemble(before_ids, after.ids, order)
    return Prompt(
        ids=ids,
        n_prefix=len(before_ids),
        n_suffix=len(after.ids),
        n_context=len(files),
        prefix_start=before.start,
        suffix_end=after.end,
        context_paths=paths,
        order=order,
        stop_ids=family.stop_ids,
        forced_bytes=forced,
    )


class _Frame:
    """The format's own tokens: everything but the texts of prefix, suffix and other files."""

    def __init__(self, tokenizer: Tokenizer, fim: FimFormat, request: InfillRequest) -> None:
        repository = fim.family.repository
        self._fim = fim
        # As the families' own code has it: the prefix is a text of its own, with the blank that SentencePiece
        # puts before one; the suffix is without, and an empty text has none.
        self.lead = (fim.family.before_prefix or tokenizer.text_prefix) if request.prefix else ""
        self.shows_files = bool(request.context) and repository is not None
        self.start = [tokenizer.bos] if tokenizer.add_bos and tokenizer.bos is not None else []
        self.current_file: list[int] = []
        if self.shows_files and repository and fim.repo is not None and fim.file is not None:
            self.start += [fim.repo, *tokenizer.encode(_REPOSITORY_NAME)]
            self.start += tokenizer.encode("\n") if repository.newline_after_file else []
            self.current_file.append(fim.file)
            path_line = f"{_one_line(request.path)}\n"
            if repository.path_inside_prefix:
                self.lead += path_line
            else:
                self.current_file += tokenizer.encode(path_line)
        self.length = len(self.start) + len(self.current_file) + 2 + (fim.middle is not None)

    def assemble(self, prefix: list[int], suffix: list[int], order: FimOrder) -> list[int]:
        before, after = [self._fim.prefix, *prefix], [self._fim.suffix, *suffix]
        parts = before + after if order is FimOrder.PSM else after + before
        return parts if self._fim.middle is None else [*parts, self._fim.middle]


def _shares(
    tokenizer: Tokenizer,
    prefix: str,
    suffix: str,
    lead: str,
    context: Sequence[ContextFile],
    body: int,
) -> tuple[int, int, int]:
    """Tokens for prefix (lead included), suffix and context; together at most body."""
    grain = max(1, body // _GRAINS)
    prefix_need = tokenizer.count(lead) + count_up_to(tokenizer, steady(prefix), body, from_end=True)
    # Rounded up, with room for what is not steady: else each key in a short file moved the suffix's end.
    prefix_need = grain * (prefix_need // grain + 1) + STEADY_CHARACTERS
    suffix_need = max(1, count_up_to(tokenizer, suffix, body, from_end=False))
    context_need = 0
    for file in reversed(context):
        context_need += count_up_to(tokenizer, file.text, body, from_end=False) + _LEAST_FILE
        if context_need >= body:
            break
    needs = [min(body, need) for need in (prefix_need, suffix_need, context_need)]

    shares = _SHARES_WITH_CONTEXT if context else _SHARES_ALONE
    given = [min(need, int(share * body)) for need, share in zip(needs, shares, strict=True)]
    for part, need in enumerate(needs):
        given[part] += min(need - given[part], body - sum(given))
    return given[0], given[1], given[2]


def _context_ids(
    tokenizer: Tokenizer, fim: FimFormat, context: Sequence[ContextFile], tokens: int
) -> tuple[list[int], tuple[str, ...]]:
    """Whole files from the last (fastest-changing, nearest to the work) backwards, in their given order;
    the first one shown may be cut at a line end."""
    repository = fim.family.repository
    if repository is None or fim.file is None:
        return [], ()
    blocks: list[list[int]] = []
    paths: list[str] = []
    for file in reversed(context):
        head = [fim.file, *tokenizer.encode(f"{_one_line(file.path)}\n")]
        tail = tokenizer.encode("\n") if repository.newline_after_file else []
        room = tokens - len(head) - len(tail)
        if room < _LEAST_FILE and tokenizer.count(file.text[: clip_length(room) + 1]) > room:
            break
        window = suffix_window(tokenizer, _lf(file.text[: clip_length(room) + 1]), room)
        block = [*head, *window.ids, *tail]
        blocks.append(block)
        paths.append(file.path)
        tokens -= len(block)
    return [token for block in reversed(blocks) for token in block], tuple(reversed(paths))


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _one_line(path: str) -> str:
    return path.replace("\r", " ").replace("\n", " ")
