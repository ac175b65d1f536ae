"""Fill-in-the-middle prompts for a remote model.

The frame is the family's (`engine.prompts.families`), the shares of prefix, suffix and other files are those
of `engine.prompts.fim`. Before the first prompt the remote's own tokenizer is asked whether each marker is
one token of its vocabulary. A prompt whose texts spell no control token goes out as text; any other as token
ids, its texts encoded apart from the markers and in pieces that spell none (`control_text.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from engine.backends.openai.control_text import spells_control
from engine.backends.openai.tokens import RemoteTokenizer
from engine.backends.openai.window import characters, end_of, start_of
from engine.errors import RequestError
from engine.prompts.families import FimFamily, FimOrder
from engine.types import ContextFile, InfillRequest

_SHARES_WITH_CONTEXT = (0.65, 0.20)
_SHARES_ALONE = (0.75, 0.25)
_GRAINS = 8
_LEAST_FILE_CHARACTERS = 80
# The request does not name its repository; the format wants some name there.
_REPOSITORY_NAME = "workspace"


@dataclass(frozen=True, slots=True)
class Marker:
    """A part of a prompt that is one control token."""

    spelling: str


Part = Marker | str


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A family's tokens as the remote has them.

    ids: of each marker. start: what its tokenizer puts before a text. stops: tokens that end the middle.
    """

    ids: dict[str, int]
    start: list[int]
    stops: list[int]


async def read_vocabulary(
    tokenizer: RemoteTokenizer, family: FimFamily, model: str, remote: str
) -> Vocabulary:
    """Ask for each marker. Raises RequestError when one is not one token of the model's vocabulary."""

    async def single(spelling: str) -> int | None:
        ids = await tokenizer.encode(spelling, model, special=True)
        return ids[0] if len(ids) == 1 else None

    # One first, so that a server that is away costs one failure, not one for each.
    ids = {family.prefix: await single(family.prefix)}
    others = list(dict.fromkeys(one for one in (*family.markers, *family.stops) if one not in ids))
    ids |= zip(others, await asyncio.gather(*(single(one) for one in others)), strict=True)
    missing = [marker for marker in family.markers if ids[marker] is None]
    if missing:
        raise RequestError(
            f"The model {model} of the remote {remote} does not have the fill-in-the-middle tokens of"
            f" {family.name} ({', '.join(missing)}).",
            meaning="It cannot complete code in the middle of a file in this format.",
            action='Set `fim` of the model in service.toml to its family, or to "none".',
        )
    begun = await tokenizer.encode(family.prefix, model, special=True, begin=True)
    first = ids[family.prefix]
    start = begun[: begun.index(first)] if first in begun else []
    return Vocabulary(
        {spelling: token for spelling, token in ids.items() if token is not None},
        start,
        [token for spelling in family.stops if (token := ids[spelling]) is not None],
    )


def clip(request: InfillRequest, tokens: int) -> tuple[str, str]:
    """The parts of prefix and suffix that about so many tokens hold."""
    most = characters(tokens)
    share = int(_SHARES_ALONE[0] * most)
    # Rounded up, so that a key in a short file does not move the suffix's end.
    grain = max(1, most // _GRAINS)
    needed = grain * (len(request.prefix) // grain + 1)
    prefix = end_of(request.prefix, max(share, most - len(request.suffix)))
    return prefix, start_of(request.suffix, most - min(share, needed))


def parts_of(request: InfillRequest, family: FimFamily, tokens: int) -> list[Part]:
    """The prompt in order: markers, and texts between them.

    tokens: about how many it may have.
    """
    repository = family.repository
    shows_files = bool(request.context) and repository is not None
    most = characters(tokens)
    head: list[Part] = []
    lead: list[Part] = [family.before_prefix] if request.prefix else []
    if shows_files and repository is not None:
        newline = "\n" if repository.newline_after_file else ""
        head += [Marker(repository.repo), _REPOSITORY_NAME + newline]
        room = most - int(sum(_SHARES_WITH_CONTEXT) * most)
        needed = len(request.prefix) + len(request.suffix)
        for file, text in _files(request.context, max(room, most - needed)):
            head += [Marker(repository.file), f"{_one_line(file.path)}\n{text}{newline}"]
        most -= sum(len(part) for part in head if isinstance(part, str))
        head.append(Marker(repository.file))
        path = f"{_one_line(request.path)}\n"
        if repository.path_inside_prefix:
            lead.append(path)
        else:
            head.append(path)
    prefix, suffix = clip(request, int(tokens * most / characters(tokens)))
    before: list[Part] = [Marker(family.prefix), *lead, prefix]
    # Formats are untrained on an empty suffix; a newline is the least that a file can end with.
    after: list[Part] = [Marker(family.suffix), suffix or "\n"]
    body = before + after if family.order is FimOrder.PSM else after + before
    end: list[Part] = [Marker(family.middle)] if family.middle else []
    return [part for part in head + body + end if part != ""]


async def prompt_of(
    parts: Sequence[Part], vocabulary: Vocabulary, tokenizer: RemoteTokenizer, model: str
) -> str | list[int]:
    """The prompt as text, or as token ids where its texts spell control tokens."""
    texts = [part for part in parts if isinstance(part, str)]
    if not any(spells_control(text) for text in texts):
        return "".join(part if isinstance(part, str) else part.spelling for part in parts)
    encoded = iter(await asyncio.gather(*(tokenizer.encode(text, model, special=False) for text in texts)))
    ids = list(vocabulary.start)
    for part in parts:
        ids += next(encoded) if isinstance(part, str) else [vocabulary.ids[part.spelling]]
    return ids


def _files(context: Sequence[ContextFile], room: int) -> list[tuple[ContextFile, str]]:
    """Whole files from the last, which is the nearest to the work, backwards, in their given order; the first
    one shown may be cut at a line end."""
    shown = []
    for file in reversed(context):
        room -= len(file.path) + 2
        if room < min(len(file.text), _LEAST_FILE_CHARACTERS):
            break
        text = start_of(file.text, room)
        shown.append((file, text))
        room -= len(text)
    return shown[::-1]


def _one_line(path: str) -> str:
    return path.replace("\r", " ").replace("\n", " ")
