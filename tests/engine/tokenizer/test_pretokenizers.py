"""Every pre-tokenizer name against llama.cpp, on a small vocabulary written for the purpose."""

import gguf
import pytest

from engine.tokenizer import Tokenizer
from engine.tokenizer.markers import END_MARKERS
from engine.tokenizer.pretokenizers import RULES

pytestmark = pytest.mark.oracle


def write_vocabulary(path, metadata):
    """A GGUF file with a tokenizer and no weights."""
    writer = gguf.GGUFWriter(path, "llama")
    values = metadata.values
    writer.add_tokenizer_model(values["tokenizer.ggml.model"])
    writer.add_tokenizer_pre(values["tokenizer.ggml.pre"])
    writer.add_token_list(values["tokenizer.ggml.tokens"])
    writer.add_token_types(values["tokenizer.ggml.token_type"])
    writer.add_token_merges([merge.decode() for merge in values["tokenizer.ggml.merges"]])
    for key in ("bos", "eos"):
        if (token := values.get(f"tokenizer.ggml.{key}_token_id")) is not None:
            writer.add_uint32(f"tokenizer.ggml.{key}_token_id", token)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


@pytest.fixture
def both(helpers, tmp_path):
    def make(**changes):
        metadata = helpers.toy_metadata(add_bos_token=None, **changes)
        write_vocabulary(tmp_path / "vocabulary.gguf", metadata)
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


@pytest.mark.parametrize("pre", sorted(RULES))
def test_every_code_point(both, pre):
    ours, theirs = both(pre=pre)
    points = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    wrong = []
    for start in range(0, len(points), 64):
        text = "".join(f"a{chr(p)}b {chr(p)}{chr(p)} 1{chr(p)}\n" for p in points[start : start + 64])
        if ours.encode(text) != theirs.encode(text):
            wrong.append(hex(points[start]))
    assert wrong == []


@pytest.mark.parametrize("harmony", [False, True])
def test_end_spellings_are_llama_cpps(both, helpers, harmony):
    spellings = sorted(END_MARKERS - (set() if harmony else {"<|return|>", "<|calls|>"}))
    ours, theirs = both(specials=dict.fromkeys(spellings, helpers.CONTROL))
    assert {ours.token_text(t) for t in ours.eos_ids} == {ours.token_text(t) for t in theirs.end_ids()}


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
