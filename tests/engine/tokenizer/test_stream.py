"""Streaming: whole characters only, and the same text as decoding everything at once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tokenizer import StreamDecoder


def pieces_of(tokenizer, ids):
    decoder = StreamDecoder(tokenizer)
    return [*(decoder.feed(token) for token in ids), decoder.finish()]


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_pieces_together_equal_decoding_everything(any_toy, data):
    ids = data.draw(st.lists(st.integers(0, any_toy.vocab_size - 1), max_size=30))
    assert "".join(pieces_of(any_toy, ids)) == any_toy.decode(ids)


@settings(deadline=None)
@given(data=st.data())
def test_byte_soup(toy_tokenizer, data):
    single = [token for token in range(256) if len(toy_tokenizer.token_bytes(token)) == 1]
    ids = data.draw(st.lists(st.sampled_from(single), max_size=30))
    assert "".join(pieces_of(toy_tokenizer, ids)) == toy_tokenizer.decode(ids)


@settings(deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581"), max_size=40))
def test_valid_text_never_shows_a_replacement(any_toy, text):
    pieces = pieces_of(any_toy, any_toy.encode(text))
    assert "".join(pieces) == text


def byte_ids(tokenizer, data):
    by_byte = {tokenizer.token_bytes(token): token for token in range(256)}
    return [by_byte[bytes([byte])] for byte in data]


def test_an_incomplete_character_is_held(toy_tokenizer):
    assert pieces_of(toy_tokenizer, byte_ids(toy_tokenizer, "€".encode())) == ["", "", "€", ""]


def test_bytes_that_cannot_become_a_character_come_at_once(toy_tokenizer):
    assert pieces_of(toy_tokenizer, byte_ids(toy_tokenizer, b"\xe2a")) == ["", "\ufffda", ""]
    assert pieces_of(toy_tokenizer, byte_ids(toy_tokenizer, b"\xff")) == ["\ufffd", ""]


def test_what_is_left_comes_at_the_end_and_the_decoder_starts_afresh(toy_tokenizer):
    decoder = StreamDecoder(toy_tokenizer)
    (first, second) = byte_ids(toy_tokenizer, b"\xe2\x82")
    assert decoder.feed(first) + decoder.feed(second) == ""
    assert decoder.finish() == "\ufffd"
    assert decoder.finish() == ""
    assert decoder.feed(byte_ids(toy_tokenizer, b"a")[0]) == "a"


@pytest.mark.parametrize("token_text", ["<|im_end|>", "[PAD1]"])
def test_control_and_unused_tokens_are_silent(toy_tokenizer, token_text):
    assert pieces_of(toy_tokenizer, [toy_tokenizer.id_of(token_text)]) == ["", ""]
