"""When reasoning is closed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.generation.thinking import MOST_REPLY_TOKENS, ThinkingBudget

CLOSE = (7, 8, 9)


def drawn(most, room, *, thinks_for=10**6):
    """What a model that would think so long draws: "r" for reasoning, "." for reply, numbers when forced."""
    budget = ThinkingBudget(CLOSE, most, room)
    tokens = []
    reasoning = True
    while len(tokens) < room:
        forced = budget.next(reasoning)
        tokens.append(forced if forced is not None else "r" if reasoning else ".")
        if forced == 8 or tokens.count("r") >= thinks_for:  # the closing tag itself
            reasoning = False
    return tokens


def test_at_the_budget():
    assert drawn(3, 100)[:8] == ["r", "r", "r", 7, 8, 9, ".", "."]
    assert drawn(0, 100)[:4] == [7, 8, 9, "."]


def test_a_model_that_ends_by_itself_is_left_alone():
    tokens = drawn(10, 100, thinks_for=3)
    assert tokens == ["r"] * 3 + ["."] * 97


@pytest.mark.parametrize(("room", "reply"), [(100, 25), (100_000, MOST_REPLY_TOKENS)])
def test_room_is_kept_for_the_reply(room, reply):
    assert drawn(None, room).count(".") == reply


@given(most=st.one_of(st.none(), st.integers(-5, 300)), room=st.integers(1, 300))
def test_never_more_than_the_budget_nor_the_room(most, room):
    tokens = drawn(most, room)
    reasoning = tokens.count("r")
    assert reasoning <= max(0, room if most is None else most)
    if room >= 8:
        assert tokens.count(".") >= room // 4 - len(CLOSE)
        assert tokens.count(8) == 1
