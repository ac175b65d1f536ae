"""What one call for embeddings may have."""

import pytest

from engine.errors import PromptTooLong, RequestError
from engine.generation.embedding import FIRST_PART, MAX_TOKENS, TextIds


def characters(text):
    return [ord(character) for character in text]


def test_ids_come_in_order_and_are_counted():
    ids = TextIds(characters, 10)
    assert [ids.of(text).tolist() for text in ("ab", "c")] == [[97, 98], [99]]
    assert ids.tokens == 3


@pytest.mark.parametrize("length", [11, 79, 80])
def test_a_text_beyond_the_window_is_named_with_its_excess(length):
    ids = TextIds(characters, 10)
    ids.of("x" * 10)
    with pytest.raises(PromptTooLong, match=f"index 1 has {length} tokens, {length - 10} too many .* of 10"):
        ids.of("x" * length)


def test_of_a_text_that_is_far_too_long_little_is_looked_at():
    seen = []

    def encode(text):
        seen.append(len(text))
        return characters(text)

    with pytest.raises(PromptTooLong, match="index 0 has about 1000000 tokens, about 999990 too many"):
        TextIds(encode, 10).of("x" * 1_000_000)
    assert seen == [FIRST_PART * 10]


def test_a_long_text_of_few_tokens_is_taken():
    ids = TextIds(lambda text: [7] * (len(text) // 100), 10)
    assert len(ids.of("x" * 1000)) == 10
    with pytest.raises(PromptTooLong, match="about 18 tokens"):
        ids.of("x" * 2000)


@pytest.mark.parametrize(("text", "encode"), [("", lambda text: [1]), (" ", lambda text: [])])
def test_an_empty_text_is_named(text, encode):
    ids = TextIds(encode, 10)
    with pytest.raises(RequestError, match="index 0 is empty"):
        ids.of(text)


def test_all_texts_together_have_a_limit():
    ids = TextIds(lambda text: [1] * 1000, 1000)
    for _ in range(MAX_TOKENS // 1000):
        ids.of("a")
    with pytest.raises(
        RequestError, match=f"up to index 300 have 301000 tokens; one call may have {MAX_TOKENS}"
    ):
        ids.of("a")
