"""The fill-in-the-middle formats that models were trained on, and which of them a tokenizer has.

Sources: the model cards and papers of each family; Qwen's repository format as its authors' example
script writes it; StarCoder2's as in its paper (arXiv 2402.19173, section 5.1); CodeLlama's as in its own
code (facebookresearch/codellama, infilling_prompt_tokens), Codestral's as in mistral-common (encode_fim).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.errors import RequestError
from engine.tokenizer import Tokenizer


class FimOrder(StrEnum):
    """Which part comes first. SPM keeps the suffix before the text that grows, so that a KV prefix
    survives typing; PSM is what most families saw most of in training."""

    PSM = "psm"  # prefix, suffix, middle
    SPM = "spm"  # suffix, prefix, middle


@dataclass(frozen=True, slots=True)
class RepositoryFormat:
    """Repository-level prompts: repo marker, a name and a newline; then for each file its marker, path,
    newline and text.

    repo, file: marker spellings. newline_after_file: whether a file's text is followed by a newline.
    path_inside_prefix: the current file's path follows the prefix marker instead of preceding it.
    """

    repo: str
    file: str
    newline_after_file: bool
    path_inside_prefix: bool = False


@dataclass(frozen=True, slots=True)
class FimFamily:
    """One family's format.

    prefix, suffix, middle: marker spellings; middle is "" where the format ends with the prefix text.
    order: the family's own order; orders: all that it can use.
    before_prefix: text that belongs to the format, between the prefix marker and a prefix that is not empty;
        where it is "", the vocabulary's own (`Tokenizer.text_prefix`).
    stops: spellings of tokens that end the middle, beside the tokenizer's own end tokens; those that
        the vocabulary lacks are left out.
    requires: other spellings that must exist, to tell families with the same markers apart.
    """

    name: str
    prefix: str
    suffix: str
    middle: str
    stops: tuple[str, ...]
    order: FimOrder = FimOrder.PSM
    orders: tuple[FimOrder, ...] = (FimOrder.PSM, FimOrder.SPM)
    before_prefix: str = ""
    repository: RepositoryFormat | None = None
    requires: tuple[str, ...] = ()

    @property
    def markers(self) -> tuple[str, ...]:
        """Every marker that must be one token of the vocabulary."""
        repository = (self.repository.repo, self.repository.file) if self.repository else ()
        own = (self.prefix, self.suffix, self.middle, *repository, *self.requires)
        return tuple(marker for marker in own if marker)


# The first family whose markers all exist wins, so the more specific ones come first.
FAMILIES: tuple[FimFamily, ...] = (
    FimFamily(
        name="qwen-coder",
        # PSM although every key then prefills the suffix anew: on HumanEval infilling the 0.5B fills 34 % of
        # the holes in this order and 12 % in the other (bench/results; both before later trimming rules).
        prefix="<|fim_prefix|>",
        suffix="<|fim_suffix|>",
        middle="<|fim_middle|>",
        stops=(
            "<|endoftext|>",
            "<|fim_prefix|>",
            "<|fim_suffix|>",
            "<|fim_middle|>",
            "<|fim_pad|>",
            "<|repo_name|>",
            "<|file_sep|>",
            "<|im_start|>",
            "<|im_end|>",
        ),
        repository=RepositoryFormat("<|repo_name|>", "<|file_sep|>", newline_after_file=True),
    ),
    FimFamily(
        name="codegemma",
        prefix="<|fim_prefix|>",
        suffix="<|fim_suffix|>",
        middle="<|fim_middle|>",
        stops=("<|file_separator|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
        requires=("<|file_separator|>",),
    ),
    FimFamily(
        name="granite-4",
        prefix="<|fim_prefix|>",
        suffix="<|fim_suffix|>",
        middle="<|fim_middle|>",
        stops=("<|end_of_text|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>"),
    ),
    FimFamily(
        name="starcoder2",
        prefix="<fim_prefix>",
        suffix="<fim_suffix>",
        middle="<fim_middle>",
        stops=("<|endoftext|>", "<file_sep>", "<repo_name>", "<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
        repository=RepositoryFormat(
            "<repo_name>", "<file_sep>", newline_after_file=False, path_inside_prefix=True
        ),
    ),
    FimFamily(
        name="starcoder",  # StarCoder 1, Granite code 3.x, StableCode
        prefix="<fim_prefix>",
        suffix="<fim_suffix>",
        middle="<fim_middle>",
        stops=(
            "<|endoftext|>",
            "<|end_of_text|>",
            "<fim_prefix>",
            "<fim_suffix>",
            "<fim_middle>",
            "<fim_pad>",
        ),
    ),
    FimFamily(
        name="deepseek-coder",
        prefix="<\uff5cfim\u2581begin\uff5c>",
        suffix="<\uff5cfim\u2581hole\uff5c>",
        middle="<\uff5cfim\u2581end\uff5c>",
        stops=("<\uff5cend\u2581of\u2581sentence\uff5c>", "<|EOT|>"),
        orders=(FimOrder.PSM,),
    ),
    FimFamily(
        name="codellama",
        prefix="\u2581<PRE>",
        suffix="\u2581<SUF>",
        middle="\u2581<MID>",
        stops=("\u2581<EOT>",),
        before_prefix=" ",
        orders=(FimOrder.PSM,),
        requires=("\u2581<EOT>",),
    ),
    FimFamily(
        name="seed-coder",
        prefix="<[fim-prefix]>",
        suffix="<[fim-suffix]>",
        middle="<[fim-middle]>",
        stops=("<[end\u2581of\u2581sentence]>", "<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"),
        order=FimOrder.SPM,
        orders=(FimOrder.SPM,),
    ),
    FimFamily(
        name="codestral",
        prefix="[PREFIX]",
        suffix="[SUFFIX]",
        middle="",
        stops=("[PREFIX]", "[SUFFIX]", "</s>"),
        order=FimOrder.SPM,
        orders=(FimOrder.SPM,),
    ),
)


@dataclass(frozen=True, slots=True)
class FimFormat:
    """A family with its ids in one tokenizer.

    middle: None where the format has no middle marker. repo, file: None without a repository format.
    stop_ids: ids that end the middle, the tokenizer's own end tokens included.
    """

    family: FimFamily
    prefix: int
    suffix: int
    middle: int | None
    repo: int | None
    file: int | None
    stop_ids: frozenset[int]


def detect_fim(tokenizer: Tokenizer) -> FimFormat | None:
    """The format that this vocabulary was made for, or None: the model has no fill-in-the-middle.

    A vocabulary cannot tell whether the model was trained on its markers: plain Qwen3 chat models have
    Qwen-Coder's. Only the model catalogue knows that.
    """
    for family in FAMILIES:
        if all(_marker_id(tokenizer, marker) is not None for marker in family.markers):
            return _resolve(tokenizer, family)
    return None


def require_fim(tokenizer: Tokenizer) -> FimFormat:
    """As `detect_fim`. Raises RequestError instead of None."""
    found = detect_fim(tokenizer)
    if found is None:
        raise RequestError(
            "This model has no fill-in-the-middle tokens.",
            meaning="It cannot complete code in the middle of a file.",
            action="Choose a model that was trained for it, for example Qwen2.5-Coder.",
        )
    return found


def _marker_id(tokenizer: Tokenizer, spelling: str) -> int | None:
    """The id of a marker that is one control or user-defined token, and that its own spelling gives."""
    token = tokenizer.id_of(spelling)
    if token is None or not (tokenizer.is_control(token) or tokenizer.is_user_defined(token)):
        return None
    return token if tokenizer.encode(spelling, special=True) == [token] else None


def _resolve(tokenizer: Tokenizer, family: FimFamily) -> FimFormat:
    def required(spelling: str) -> int:
        token = _marker_id(tokenizer, spelling)
        assert token is not None, spelling  # noqa: S101 - detect_fim has just checked it
        return token

    stops = {token for spelling in family.stops if (token := _marker_id(tokenizer, spelling)) is not None}
    repository = family.repository
    return FimFormat(
        family=family,
        prefix=required(family.prefix),
        suffix=required(family.suffix),
        middle=required(family.middle) if family.middle else None,
        repo=required(repository.repo) if repository else None,
        file=required(repository.file) if repository else None,
        stop_ids=tokenizer.eos_ids | stops,
    )
