"""Which fill-in-the-middle format a remote model has, by what it is called.

Only formats of vocabularies that encode a text alike wherever it stands: SentencePiece vocabularies that put
a blank before a text (CodeLlama's, Codestral's) need the tokenizer itself, and are reached by "suffix" on
servers that know it. Names alone, so that reading settings loads no tokenizer.
"""

from __future__ import annotations

import re

AUTO, SUFFIX, NONE = "auto", "suffix", "none"

# The first that fits; from the names that the families' authors publish their models under.
_NAMES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (family, re.compile(pattern, re.IGNORECASE))
    for family, pattern in (
        ("qwen-coder", r"qwen[\d.]*-?coder"),
        ("codegemma", r"codegemma"),
        ("granite-4", r"granite-4"),
        ("starcoder2", r"starcoder2"),
        ("starcoder", r"starcoder|granite-\d+b-code|stable-?code"),
        ("deepseek-coder", r"deepseek-coder"),
        ("seed-coder", r"seed-coder"),
    )
)

FIM_WAYS = (AUTO, SUFFIX, NONE, *(family for family, _ in _NAMES))


def family_name(model: str) -> str:
    """The family of a model with that name; NONE when it is not known to have one."""
    return next((family for family, pattern in _NAMES if pattern.search(model)), NONE)
