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


# Tekken's words, as Mistral publishes them; llama.cpp has an approximation that knows the case of ASCII
# letters only and takes combining marks for symbols.
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEFORE_WORD = r"[^\r\n\p{L}\p{N}]?"
_CASED_WORDS = rf"{_BEFORE_WORD}{_UPPER}*{_LOWER}+|{_BEFORE_WORD}{_UPPER}+{_LOWER}*"
# Letters with case, as the model's own tokenizer lists them.
_CASED = (
    "A-Za-z\xb5\xc0-\xd6\xd8-\xf6\xf8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481"
    "\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf"
    "\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d"
    "\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4"
    "\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107"
    "\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
    "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17"
    "\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb"
    "\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
_CJK = r"[一-龥ࠀ-一가-퟿]+"

_QWEN2 = WordRule((_words(r"\p{N}"),))
_LLAMA3 = WordRule((_words(r"\p{N}{1,3}"),), whole_words=True, add_bos=True)
_DIGITS_GPT2 = WordRule((r"\p{N}", _GPT2))
_PLAIN_GPT2 = WordRule((_GPT2,))

RULES: dict[str, WordRule] = {
    "default": WordRule((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
    "gpt-2": _PLAIN_GPT2,
    "phi-2": _PLAIN_GPT2,
    "olmo": _PLAIN_GPT2,
    "granite-docling": _PLAIN_GPT2,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "stablelm2": _QWEN2,
    "qwen35": WordRule((_words(r"\p{N}", marks=r"\p{M}"),)),
    "llama-bpe": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama3": _LLAMA3,
    "dbrx": WordRule(_LLAMA3.patterns),
    "smollm": _DIGITS_GPT2,
    "starcoder": _DIGITS_GPT2,
    "refact": _DIGITS_GPT2,
    "command-r": _DIGITS_GPT2,
    "codeshell": _DIGITS_GPT2,
    "deepseek-coder": WordRule((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}")),
    "deepseek-llm": WordRule(
        (
            r"[\r\n]",
            rf"\s?[{_CASED}]+",
            "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
            r"\s+$",
            _CJK,
            r"\p{N}+",
        )
    ),
    "seed-coder": WordRule((_words(r"\p{N}", after_symbols=""),)),
    "tekken": WordRule(
        (rf"{_CASED_WORDS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_LINES_AND_BLANKS}",),
        whole_words=True,
        add_bos=True,
    ),
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
