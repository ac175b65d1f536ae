r"""How each family cuts text into words before BPE: tokenizer.ggml.pre -> a list of regular expressions.

The expressions are the ones of the models' own published tokenizers, in the form that llama.cpp uses for
the same name; the tests compare every name here with llama.cpp, every code point included. Expressions
apply in turn, each inside the pieces that the one before left; what none matches stays a piece. Names that
the oracle has not confirmed are left out and refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Sequence, Split

from engine.errors import ModelFileError

_CONTRACTIONS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_LINES_AND_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"


def _words(numbers: str, marks: str = "", after_symbols: str = r"[\r\n]*") -> str:
    return (
        rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}{marks}]+|{numbers}"
        rf"| ?[^\s\p{{L}}{marks}\p{{N}}]+{after_symbols}|{_LINES_AND_BLANKS}"
    )


@dataclass(frozen=True, slots=True)
class WordRule:
    """patterns: as described above. whole_words: a word that is itself a token is not merged up from bytes.
    add_bos: the default where the file does not say."""

    patterns: tuple[str, ...]
    whole_words: bool = False
    add_bos: bool = False


_QWEN2 = WordRule((_words(r"\p{N}"),))
_LLAMA3 = WordRule((_words(r"\p{N}{1,3}"),), whole_words=True, add_bos=True)
_DIGITS_GPT2 = WordRule((r"\p{N}", _GPT2))
_PLAIN_GPT2 = WordRule((_GPT2,))

RULES: dict[str, WordRule] = {
    "default": WordRule((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
    "gpt-2": _PLAIN_GPT2,
    "phi-2": _PLAIN_GPT2,
    "olmo": _PLAIN_GPT2,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "stablelm2": _QWEN2,
    "qwen35": WordRule((_words(r"\p{N}", marks=r"\p{M}"),)),
    "llama-bpe": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama3": _LLAMA3,
    "smollm": _DIGITS_GPT2,
    "starcoder": _DIGITS_GPT2,
    "refact": _DIGITS_GPT2,
    "command-r": _DIGITS_GPT2,
    "codeshell": _DIGITS_GPT2,
    "deepseek-coder": WordRule((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}")),
}


def word_rule(pre: str) -> WordRule:
    """Raises ModelFileError for a name that is not in RULES: a guess would give wrong ids silently."""
    rule = RULES.get(pre)
    if rule is None:
        raise ModelFileError(
            f"The model asks for the pre-tokenizer {pre!r}, which Hearth does not know.",
            meaning="Text would be cut into tokens that the model was not trained on.",
            action=f"Choose a model whose tokenizer.ggml.pre is one of: {', '.join(sorted(RULES))}.",
        )
    return rule


def pre_tokenizer(rule: WordRule) -> PreTokenizer:
    """The rule for `tokenizers`, ending in the byte-to-character alphabet of GPT-2."""
    splits: list[PreTokenizer] = [Split(Regex(pattern), "isolated") for pattern in rule.patterns]
    return Sequence([*splits, ByteLevel(add_prefix_space=False, use_regex=False)])
