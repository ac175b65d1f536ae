"""Every pre-tokenizer name against llama.cpp, on a small vocabulary written for the purpose."""

from itertools import combinations

import pytest

from engine.tokenizer import Tokenizer
from engine.tokenizer.markers import END_MARKERS
from engine.tokenizer.pretokenizers import RULES

pytestmark = pytest.mark.oracle


@pytest.fixture
def both(helpers, tmp_path):
    def make(**changes):
        metadata = helpers.toy_metadata(add_bos_token=None, **changes)
        helpers.write_vocabulary(tmp_path / "vocabulary.gguf", metadata)
        return Tokenizer.from_gguf(metadata), helpers.LlamaCppVocabulary(tmp_path / "vocabulary.gguf")

    return make


@pytest.mark.parametrize("pre", sorted(RULES))
def test_ids_are_llama_cpps(both, samples, helpers, pre):
    ours, theirs = both(pre=pre, bos_token_id=1)
    assert ours.add_bos == theirs.add_bos
    texts = [*samples.TORTURE.values(), *(path.read_text() for path in helpers.CORPUS.iterdir())]
    texts += [samples.salad(language, seed) for language in samples.LANGUAGES for seed in range(2)]
    for text in texts:
        assert ours.encode(text) == theirs.encode(text)


@pytest.mark.parametrize("pre", sorted({rule: pre for pre, rule in RULES.items()}.values()))
def test_every_code_point(both, samples, pre):
    # llama.cpp hides the spaces beyond Latin-1 from these rules' range of CJK characters, which spans them;
    # the models' own tokenizers do not, and neither do we.
    apart = {chr(p) for p in [*range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F]}
    hidden = str.maketrans(dict.fromkeys(apart)) if pre in ("deepseek-coder", "deepseek-llm") else {}
    ours, theirs = both(pre=pre)
    wrong = [
        text[:2]
        for text in (line.translate(hidden) for line in samples.code_points())
        if ours.encode(text) != theirs.encode(text)
    ]
    assert wrong == []


def test_each_end_spelling_ends_a_generation_in_llama_cpp_too(both, helpers):
    for spelling in sorted(END_MARKERS):
        ours, theirs = both(specials={spelling: helpers.CONTROL}, eos_token_id=0)
        assert ours.eos_ids == theirs.end_ids() == {0, ours.id_of(spelling)}


@pytest.mark.parametrize(
    "spellings",
    [
        *(
            ("<|end|>", *pair)
            for pair in combinations(("<|return|>", "<|call|>", "<|calls|>", "<|flush|>"), 2)
        ),
        ("</s>", "<|tool_response>"),
    ],
)
def test_spellings_that_change_the_meaning_of_others(both, helpers, spellings):
    ours, theirs = both(specials=dict.fromkeys(spellings, helpers.CONTROL), eos_token_id=0)
    assert ours.eos_ids == theirs.end_ids()


def test_wrongly_typed_markers(both, helpers):
    specials = {
        "<|fim_prefix|>": helpers.USER_DEFINED,
        "<|im_end|>": helpers.NORMAL,
        "<tag>": helpers.USER_DEFINED,
    }
    ours, theirs = both(specials=specials)
    text = "a<|fim_prefix|>b<|im_end|>c<tag>"
    assert ours.encode(text) == theirs.encode(text)
    assert ours.encode(text, special=True) == theirs.encode(text, special=True)
