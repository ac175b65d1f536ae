"""Which fill-in-the-middle format a vocabulary has, and that half a format is none."""

import pytest

from engine.errors import RequestError
from engine.prompts import FAMILIES, FimOrder, detect_fim, require_fim
from engine.tokenizer.markers import END_MARKERS, FIM_MARKERS


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_each_family_is_found_by_its_markers(make_tokenizer, family):
    tokenizer = make_tokenizer(*family.markers)
    found = detect_fim(tokenizer)
    assert found.family == family
    assert tokenizer.token_text(found.prefix) == family.prefix
    assert tokenizer.token_text(found.suffix) == family.suffix
    assert (found.middle is None) == (family.middle == "")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_no_family_is_found_when_a_marker_is_missing(make_tokenizer, family):
    for missing in (family.prefix, family.suffix):
        tokenizer = make_tokenizer(*(marker for marker in family.markers if marker != missing))
        assert detect_fim(tokenizer) is None


def test_a_marker_that_is_an_ordinary_token_does_not_count(helpers, make_tokenizer):
    tokenizer = make_tokenizer("<fim_prefix>", "<fim_suffix>")
    assert detect_fim(tokenizer) is None


def test_plain_chat_models_are_refused_in_words(make_tokenizer):
    tokenizer = make_tokenizer("<|im_start|>", "<|im_end|>", "<file_sep>", "<repo_name>")
    assert detect_fim(tokenizer) is None
    with pytest.raises(RequestError, match="no fill-in-the-middle"):
        require_fim(tokenizer)


def test_stop_ids_are_the_familys_and_the_tokenizers(qwen_like):
    names = {qwen_like.token_text(token) for token in require_fim(qwen_like).stop_ids}
    assert names == set(FAMILIES[0].stops)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_marker_is_kept_out_of_user_text_whatever_its_type(helpers, family):
    from engine.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_gguf(helpers.toy_metadata(dict.fromkeys(family.markers, helpers.USER_DEFINED)))
    ids = tokenizer.encode("x".join(family.markers))
    assert not {tokenizer.id_of(marker) for marker in family.markers} & set(ids)
    assert set(family.markers) <= FIM_MARKERS | END_MARKERS


def test_orders():
    assert all(family.order in family.orders for family in FAMILIES)
    by_name = {family.name: family for family in FAMILIES}
    assert by_name["codestral"].orders == (FimOrder.SPM,)
    assert by_name["deepseek-coder"].orders == (FimOrder.PSM,)


@pytest.mark.model
def test_real_models(real_model):
    _, qwen = real_model("qwen2.5-coder-0.5b")
    found = require_fim(qwen)
    assert (found.family.name, found.prefix, found.middle, found.suffix, found.repo, found.file) == (
        "qwen-coder", 151659, 151660, 151661, 151663, 151664,
    )  # fmt: skip
    assert {151643, 151645, *range(151659, 151665)} <= found.stop_ids
    _, smollm = real_model("smollm2-135m")
    assert detect_fim(smollm) is None
