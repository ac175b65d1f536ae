"""SentencePiece vocabularies, on a small one: what is special about the kind."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ModelFileError
from engine.tokenizer import StreamDecoder, Tokenizer

BLANK = "\u2581"


@pytest.fixture
def make(helpers):
    return lambda *args, **changes: Tokenizer.from_gguf(helpers.toy_sentencepiece(*args, **changes))


@pytest.fixture(scope="module")
def oracle(helpers, tmp_path_factory):
    path = tmp_path_factory.mktemp("toy") / "vocabulary.gguf"
    helpers.write_vocabulary(path, helpers.toy_sentencepiece({"<tag>": helpers.USER_DEFINED}))
    return helpers.LlamaCppVocabulary(path)


@pytest.mark.oracle
def test_ids_are_llama_cpps(toy_sentencepiece, oracle, samples):
    assert toy_sentencepiece.add_bos == oracle.add_bos
    texts = samples.fixed_texts()
    del texts["torture: empty"]
    for text in texts.values():
        assert toy_sentencepiece.encode(" " + text) == oracle.encode(text)


@pytest.mark.oracle
@settings(deadline=None, max_examples=500)
@given(text=st.text(st.sampled_from("   retunqué日\t\n=()"), min_size=1, max_size=60))
def test_ids_are_llama_cpps_where_merges_compete(toy_sentencepiece, oracle, text):
    assert toy_sentencepiece.encode(" " + text) == oracle.encode(text)


@pytest.mark.oracle
def test_bytes_of_all_tokens_are_llama_cpps(toy_sentencepiece, oracle):
    for token in range(oracle.size):
        assert toy_sentencepiece.token_bytes(token) == oracle.token_bytes(token)


def spelled(tokenizer, text):
    return [tokenizer.token_text(token) for token in tokenizer.encode(text)]


def test_blanks_are_neither_added_nor_lost(toy_sentencepiece):
    for text in ("self", " self", "   self", "self ", " "):
        assert "".join(spelled(toy_sentencepiece, text)) == text.replace(" ", BLANK)
        assert toy_sentencepiece.decode(toy_sentencepiece.encode(text)) == text


def test_a_run_of_blanks_is_as_few_tokens_as_can_be(toy_sentencepiece):
    assert list(map(len, spelled(toy_sentencepiece, " " * 37))) == [16, 16, 5]


def test_a_character_without_a_token_is_its_bytes(toy_sentencepiece):
    assert spelled(toy_sentencepiece, "€q") == ["<0xE2>", "<0x82>", "<0xAC>", "<0x71>"]
    assert spelled(toy_sentencepiece, "\n\t") == ["<0x0A>", "<0x09>"]


def test_such_a_character_still_merges_into_longer_tokens(toy_sentencepiece):
    assert spelled(toy_sentencepiece, "quené") == ["que", "né"]


def test_bytes_join_to_whole_characters_in_a_stream(toy_sentencepiece):
    decoder = StreamDecoder(toy_sentencepiece)
    ids = toy_sentencepiece.encode(" a€ b")
    pieces = [decoder.feed(token) for token in ids]
    assert "".join(pieces) + decoder.finish() == " a€ b"
    euro = pieces.index("€")
    assert pieces[euro - 2 : euro] == ["", ""]
    assert pieces[0].startswith(" ")


def test_the_spelling_of_a_byte_token_in_text_stays_text(toy_sentencepiece):
    assert toy_sentencepiece.decode(toy_sentencepiece.encode("<0x41>")) == "<0x41>"


def test_a_blanks_own_spelling_counts_as_a_blank(toy_sentencepiece):
    assert toy_sentencepiece.encode(f"a{BLANK}b") == toy_sentencepiece.encode("a b")


def test_tags_are_found_in_any_text(toy_sentencepiece):
    tag = toy_sentencepiece.id_of("<tag>")
    assert tag in toy_sentencepiece.encode("a<tag>b")
    assert toy_sentencepiece.decode(toy_sentencepiece.encode("a<tag>b")) == "a<tag>b"


@pytest.mark.parametrize("kind", ["NORMAL", "CONTROL", "USER_DEFINED"])
def test_user_text_never_becomes_a_control_token(make, helpers, kind):
    markers = ["</s>", "<|fim_prefix|>", "[PREFIX]", f"{BLANK}<PRE>"]
    # Every beginning of a marker is a token, so that merges come within one step of it.
    begun = {marker[:length] for marker in markers for length in range(2, len(marker))}
    specials = dict.fromkeys(markers, getattr(helpers, kind)) | dict.fromkeys(sorted(begun), helpers.NORMAL)
    tokenizer = make(specials)
    for marker in markers:
        text = marker.replace(BLANK, " ")
        ids = tokenizer.encode(text)
        assert not any(tokenizer.is_control(token) for token in ids)
        assert tokenizer.decode(ids) == text
        assert tokenizer.encode(marker, special=True) == [tokenizer.id_of(marker)]


def test_what_the_file_leaves_out_is_as_in_llama_2(make):
    tokenizer = make()
    assert (tokenizer.bos, tokenizer.eos, tokenizer.add_bos, tokenizer.text_prefix) == (1, 2, True, " ")


def test_what_the_file_says_counts(make):
    tokenizer = make(bos_token_id=2, eos_token_id=1, add_bos_token=False, add_space_prefix=False)
    assert (tokenizer.bos, tokenizer.eos, tokenizer.add_bos, tokenizer.text_prefix) == (2, 1, False, "")


def test_byte_level_vocabularies_want_no_blank(toy_tokenizer):
    assert toy_tokenizer.text_prefix == ""


@pytest.mark.parametrize("scores", [None, [], [1], "x", math.nan, math.inf])
def test_scores_that_do_not_fit_are_refused(make, helpers, scores):
    if isinstance(scores, float):
        scores = [scores] * len(helpers.toy_sentencepiece().values["tokenizer.ggml.tokens"])
    with pytest.raises(ModelFileError, match=r"tokenizer\.ggml\.scores"):
        make(scores=scores)


def test_a_vocabulary_without_a_byte_is_refused(make, helpers):
    tokens = helpers.toy_sentencepiece().values["tokenizer.ggml.tokens"]
    with pytest.raises(ModelFileError, match="single bytes"):
        make(tokens=[b"[gone]" if token == b"<0x7F>" else token for token in tokens])
