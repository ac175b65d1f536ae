"""Text that spells a control token must not become one.

A server's tokenizer reads the spelling of a control token as that token, wherever it stands, and its
vocabulary is not here to be asked. So text is looked through for what has the shape of one, of any family.
Text without any goes out as it is; text with one is cut inside each spelling and encoded piece by piece, so
that no piece spells one.
"""

from __future__ import annotations

import re

from engine.prompts.families import FAMILIES

# Shapes and names of control tokens in the vocabularies of the families that servers run: Qwen, DeepSeek,
# Llama, Gemma, Granite, StarCoder, Mistral, Phi, Seed. Too many cost a request more, too few are a hole.
_SHAPES = (
    r"<[|\uff5c][^<>\n]{1,64}[|\uff5c]>",
    r"<\[[^<>\n]{1,64}\]>",
    r"</?(?:s|unk|pad|bos|eos|mask|think|thinking|tools?|tool_calls?|tool_responses?|tool_output|filename|reponame)>",
    r"<(?:start|end)_of_[a-z_]{1,32}>",
    r"<(?:fim|file|repo|gh|issue|jupyter|commit|pr|empty|intermediate)_[a-z_0-9]{1,32}>",
    r"<(?:unused|reserved_)[a-z_]{0,32}\d{1,6}>",
    r"\u2581?<(?:PRE|SUF|MID|EOT|EOD)>",
    r"\[/?(?:PREFIX|SUFFIX|MIDDLE|INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|ARGS|CALL_ID"
    r"|SYSTEM_PROMPT|THINK|IMG|IMG_BREAK|IMG_END|AUDIO)\]",
    r"<\|?(?:SYSTEM|USER|ASSISTANT)\|?>",
)
_OF_FAMILIES = sorted({re.escape(one) for family in FAMILIES for one in (*family.markers, *family.stops)})
_SPELLING = re.compile("|".join((*_OF_FAMILIES, *_SHAPES)))


def spells_control(text: str) -> bool:
    """Whether some part of the text looks like a control token."""
    return _SPELLING.search(text) is not None


def harmless_pieces(text: str) -> list[str]:
    """The text in pieces none of which spells a control token; together they are the text."""
    pieces, start, at = [], 0, 0
    while (found := _SPELLING.search(text, at)) is not None:
        at = found.start() + 1
        pieces.append(text[start:at])
        start = at
    pieces.append(text[start:])
    return [piece for piece in pieces if piece]
