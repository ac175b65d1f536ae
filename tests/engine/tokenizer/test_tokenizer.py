"""The tokenizer on a small vocabulary: special tokens, decoding, end ids, damaged files."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ModelFileError
from engine.tokenizer import Tokenizer
from engine.tokenizer.markers import END_MARKERS, FIM_MARKERS
from engine.tokenizer.pretokenizers import RULES

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


@pytest.fixture(scope="module")
def tokenizer(toy_tokenizer):
    return toy_tokenizer


@settings(deadline=None)
@given(text=any_text)
def test_decoding_gives_the_text_back(any_toy, text):
    # Only SentencePiece's own sign for a blank is lost: it becomes one.
    expected = text.replace("\u2581", " ") if any_toy.text_prefix else text
    assert any_toy.decode(any_toy.encode(text)) == expected


@settings(deadline=None)
@given(parts=st.lists(st.one_of(any_text, st.sampled_from(sorted(END_MARKERS | FIM_MARKERS))), max_size=6))
def test_user_text_never_becomes_a_control_token(tokenizer, parts):
    ids = tokenizer.encode("".join(parts))
    assert not any(tokenizer.is_control(token) for token in ids)


def test_control_spellings_are_parsed_only_when_asked_for(tokenizer):
    marker = tokenizer.id_of("<|fim_prefix|>")
    assert tokenizer.encode("<|fim_prefix|>", special=True) == [marker]
    plain = tokenizer.encode("<|fim_prefix|>")
    assert marker not in plain
    assert tokenizer.decode(plain) == "<|fim_prefix|>"


def test_user_defined_tags_are_found_in_any_text(tokenizer):
    tag = tokenizer.id_of("<tool_call>")
    assert tokenizer.encode("a<tool_call>")[-1] == tag
    assert tokenizer.decode([tag]) == "<tool_call>"
    assert tokenizer.is_user_defined(tag)
    assert not tokenizer.is_control(tag)


def test_unused_tokens_are_neither_found_nor_shown(tokenizer):
    padding = tokenizer.id_of("[PAD1]")
    assert padding not in tokenizer.encode("[PAD1]", special=True)
    assert tokenizer.token_bytes(padding) == b""


def test_of_two_spellings_at_one_place_the_longer_is_meant(helpers):
    specials = {"<a>": helpers.CONTROL, "<a>b": helpers.CONTROL}
    tokenizer = Tokenizer.from_gguf(helpers.toy_metadata(specials))
    assert tokenizer.encode("<a>b", special=True) == [tokenizer.id_of("<a>b")]


@pytest.mark.parametrize(
    ("text", "clean"), [("a\ud800b", "a\ufffdb"), ("\udc00", "\ufffd"), ("\ud83d\ude00", "😀")]
)
def test_lone_surrogates_count_as_replacement_characters(tokenizer, text, clean):
    assert tokenizer.encode(text) == tokenizer.encode(clean)


def test_control_tokens_have_no_text_but_a_spelling(tokenizer):
    marker = tokenizer.id_of("<|im_end|>")
    assert tokenizer.token_bytes(marker) == b""
    assert tokenizer.token_text(marker) == "<|im_end|>"
    assert tokenizer.decode([*tokenizer.encode("a"), marker]) == "a"


@pytest.mark.parametrize("token", [-1, 10**9])
def test_ids_outside_the_vocabulary_are_refused(tokenizer, token):
    with pytest.raises(IndexError):
        tokenizer.token_bytes(token)


def test_end_ids_are_the_named_ones_and_the_known_spellings(tokenizer):
    names = {tokenizer.token_text(token) for token in tokenizer.eos_ids}
    assert names == {"<|endoftext|>", "<|im_end|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"}


def test_the_first_id_can_end_a_generation(helpers):
    metadata = helpers.toy_metadata(specials={})
    for key, value in (("tokens", b"<|endoftext|>"), ("token_type", helpers.CONTROL)):
        values = metadata.values[f"tokenizer.ggml.{key}"]
        metadata.values[f"tokenizer.ggml.{key}"] = [value, *values]
    assert 0 in Tokenizer.from_gguf(metadata).eos_ids


def test_a_marker_with_a_wrong_type_still_counts_as_control(helpers):
    specials = {"<|fim_prefix|>": helpers.USER_DEFINED, "<|im_end|>": helpers.NORMAL}
    tokenizer = Tokenizer.from_gguf(helpers.toy_metadata(specials))
    for spelling in specials:
        token = tokenizer.id_of(spelling)
        assert tokenizer.is_control(token)
        assert token not in tokenizer.encode(spelling)


def test_a_channel_end_does_not_end_a_harmony_answer(helpers):
    specials = dict.fromkeys(("<|end|>", "<|return|>", "<|call|>"), helpers.CONTROL)
    tokenizer = Tokenizer.from_gguf(helpers.toy_metadata(specials))
    names = {tokenizer.token_text(token) for token in tokenizer.eos_ids}
    assert names == {"<|return|>", "<|call|>"}


@pytest.mark.parametrize(("pre", "flag", "expected"), [
    ("qwen2", None, False), ("llama-bpe", None, True), ("llama-bpe", False, False), ("qwen2", True, True),
])  # fmt: skip
def test_whether_prompts_begin_with_bos(helpers, pre, flag, expected):
    metadata = helpers.toy_metadata(pre=pre, bos_token_id=7, add_bos_token=flag)
    assert Tokenizer.from_gguf(metadata).add_bos is expected


def test_no_bos_is_added_where_there_is_none(helpers):
    tokenizer = Tokenizer.from_gguf(helpers.toy_metadata(add_bos_token=True))
    assert (tokenizer.bos, tokenizer.add_bos) == (None, False)


def test_a_byte_that_the_vocabulary_lacks_still_parts_its_neighbours(helpers):
    metadata = helpers.toy_metadata()
    tokens = metadata.values["tokenizer.ggml.tokens"]
    metadata.values["tokenizer.ggml.tokens"] = [
        b"[gone]" if token == "ñ".encode() else token for token in tokens
    ]
    tokenizer = Tokenizer.from_gguf(metadata)
    # 0xF1, spelled "ñ", begins U+42019; without a border "in" and "t" around it could merge.
    ids = tokenizer.encode("re\U00042019turn")
    assert max(ids) < tokenizer.vocab_size
    assert tokenizer.decode(ids) == "re\ufffd\ufffd\ufffdturn"


def test_encoding_from_many_threads(tokenizer):
    text = "def f(x):\n    return x\n" * 50
    expected = tokenizer.encode(text)
    results = []
    threads = [threading.Thread(target=lambda: results.append(tokenizer.encode(text))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 8


def test_ids_given_out_are_the_callers_own(tokenizer):
    text = "return self.value\n" * 100
    first = tokenizer.encode(text)
    first.append(0)
    assert tokenizer.encode(text) == first[:-1]


def test_counting(tokenizer):
    assert tokenizer.count("") == 0
    assert tokenizer.count("def f") == len(tokenizer.encode("def f"))


@pytest.mark.parametrize("pre", sorted(RULES))
def test_every_word_rule_compiles_and_loses_nothing(helpers, samples, pre):
    tokenizer = Tokenizer.from_gguf(helpers.toy_metadata(pre=pre))
    for text in samples.TORTURE.values():
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"model": "bert"}, "bert"),
        ({"model": None}, "None"),
        ({"pre": "martian"}, "martian"),
        ({"tokens": None}, "tokenizer.ggml.tokens"),
        ({"tokens": []}, "tokenizer.ggml.tokens"),
        ({"tokens": [1, 2]}, "tokenizer.ggml.tokens"),
        ({"tokens": [b"\xff"]}, "UTF-8"),
        ({"merges": None}, "tokenizer.ggml.merges"),
        ({"merges": [b"a"]}, "not a pair"),
        ({"merges": [b"a b c"]}, "not a pair"),
        ({"merges": [b"zz qq"]}, "merges"),
        ({"merges": [b"\xff b"]}, "UTF-8"),
        ({"token_type": [1]}, "token_type"),
        ({"token_type": "x"}, "token_type"),
        ({"eos_token_id": 10**6}, "eos_token_id"),
        ({"bos_token_id": -1}, "bos_token_id"),
        ({"eos_token_id": "end"}, "eos_token_id"),
    ],
)  # fmt: skip
def test_a_damaged_or_foreign_vocabulary_is_refused_in_words(helpers, changes, names):
    with pytest.raises(ModelFileError, match=names) as error:
        Tokenizer.from_gguf(helpers.toy_metadata(**changes))
    assert error.value.action


def test_a_token_may_hold_a_newline(helpers):
    tokenizer = Tokenizer.from_gguf(helpers.toy_metadata({"<a\nb>": helpers.CONTROL}))
    assert tokenizer.encode("x<a\nb>", special=True)[-1] == tokenizer.id_of("<a\nb>")
