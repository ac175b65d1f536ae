"""Token healing: what is removed, and which tokens may come first."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.prompts import VocabularyTrie, build_infill, heal, remaining_bytes, require_fim
from engine.types import InfillRequest


@pytest.fixture(scope="module")
def trie(qwen_like):
    return VocabularyTrie(qwen_like)


@pytest.mark.parametrize(
    ("text", "kept", "forced"),
    [
        ("x = retu", "x =", b" retu"),
        ("x.retu", "x", b".retu"),
        ("return ", "return ", b""),
        ("f(", "f(", b""),
        ("f((ab", "f((", b"ab"),
        ("a\nb", "a\n", b"b"),
        ("a\n", "a\n", b""),
        ("", "", b""),
        ("é", "", "é".encode()),
        ("a.b_c", "a", b".b_c"),
        ("    x", "   ", b" x"),
    ],
)
def test_the_identifier_before_the_cursor_is_removed(qwen_like, text, kept, forced):
    ids, removed = heal(qwen_like.encode(text), qwen_like)
    assert removed == forced
    assert qwen_like.decode(ids) == kept


def test_a_control_token_is_a_border(qwen_like):
    marker = qwen_like.id_of("<|fim_prefix|>")
    ids, forced = heal([marker, *qwen_like.encode("ab")], qwen_like)
    assert (ids, forced) == ([marker], b"ab")
    assert heal([marker], qwen_like) == ([marker], b"")


def test_a_very_long_identifier_is_left_alone(qwen_like):
    ids = qwen_like.encode("zqxjkvwyzqxjkvwyzqxjkvwy")
    assert len(ids) > 8
    assert heal(ids, qwen_like) == (ids, b"")


@settings(deadline=None)
@given(text=st.text(st.sampled_from("ab_1 .(\né日"), max_size=20))
def test_kept_and_forced_make_the_whole(qwen_like, text):
    ids, forced = heal(qwen_like.encode(text), qwen_like)
    assert b"".join(map(qwen_like.token_bytes, ids)) + forced == text.encode()


@settings(deadline=None, max_examples=60)
@given(
    forced=st.one_of(
        st.binary(max_size=4), st.sampled_from([b" return", b"self", b" ", b"\xff", b"\xff\xff"])
    )
)
def test_allowed_tokens_are_the_ones_a_search_finds(qwen_like, trie, forced):
    expected = []
    for token in range(qwen_like.vocab_size):
        spelled = qwen_like.token_bytes(token)
        if spelled and (spelled.startswith(forced) or forced.startswith(spelled)):
            expected.append(token)
    assert trie.allowed_first_tokens(forced).tolist() == expected
    mask = trie.mask(forced, qwen_like.vocab_size + 3)
    assert mask.nonzero()[0].tolist() == expected
    assert mask.shape == (qwen_like.vocab_size + 3,)


def test_control_tokens_are_never_allowed(qwen_like, trie):
    assert not any(qwen_like.is_control(token) for token in trie.allowed_first_tokens(b""))


@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_following_allowed_tokens_spells_the_forced_bytes(qwen_like, trie, data):
    forced = data.draw(st.sampled_from([" retu", "self.x", "日本", "Ü"])).encode()
    left, spelled = forced, b""
    while left:
        token = data.draw(st.sampled_from(trie.allowed_first_tokens(left).tolist()))
        spelled += qwen_like.token_bytes(token)
        left = remaining_bytes(left, qwen_like.token_bytes(token))
    assert spelled.startswith(forced)


def test_a_healed_prompt_ends_before_the_word(qwen_like):
    request = InfillRequest(prefix="x = retu", suffix="\n")
    family = require_fim(qwen_like)
    healed = build_infill(request, qwen_like, family, 100, healing=True)
    plain = build_infill(request, qwen_like, family, 100)
    assert healed.forced_bytes == b" retu"
    assert plain.forced_bytes == b""
    assert len(healed.ids) < len(plain.ids)
    assert qwen_like.decode(healed.ids) == "x =\n"
