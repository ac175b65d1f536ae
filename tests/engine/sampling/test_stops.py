"""Stop strings against a naive search in the whole text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import RequestError
from engine.sampling import StopMatcher

letters = st.sampled_from("ab\n")
texts = st.text(letters, max_size=30)
stop_lists = st.lists(st.text(letters, min_size=1, max_size=5), max_size=4)


def naive(text, stops):
    """(text before the first complete stop string, whether there is one)."""
    for end in range(len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return text[: min(starts)], True
    return text, False


def run(pieces, stops):
    matcher = StopMatcher(stops)
    emitted = ""
    for piece in pieces:
        text, stopped = matcher.feed(piece)
        emitted += text
        if stopped:
            return emitted, True
    return emitted + matcher.finish(), False


@given(pieces=st.lists(st.text(letters, max_size=6), max_size=12), stops=stop_lists)
def test_equals_a_search_in_the_whole_text(pieces, stops):
    assert run(pieces, stops) == naive("".join(pieces), stops)


@given(text=texts, stops=stop_lists)
def test_nothing_emitted_is_part_of_a_stop_string_that_follows(text, stops):
    matcher = StopMatcher(stops)
    emitted = ""
    for character in text:
        piece, stopped = matcher.feed(character)
        emitted += piece
        assert naive(text, stops)[0].startswith(emitted)
        if stopped:
            break


def test_only_what_may_become_a_stop_string_is_held():
    matcher = StopMatcher(["</s>"])
    assert matcher.feed("a <b") == ("a <b", False)
    assert matcher.feed("x</") == ("x", False)
    assert matcher.feed("t>") == ("</t>", False)
    assert matcher.feed("</s>more") == ("", True)


def test_after_the_stop_nothing_more_comes():
    matcher = StopMatcher(["x"])
    assert matcher.feed("ax") == ("a", True)
    assert matcher.feed("b") == ("", True)
    assert matcher.finish() == ""


@pytest.mark.parametrize("stops", [[], [""]])
def test_without_stop_strings_nothing_is_held(stops):
    matcher = StopMatcher(stops)
    assert matcher.feed("abc") == ("abc", False)
    assert matcher.finish() == ""


def test_stop_ids():
    matcher = StopMatcher(ids=[3, 5])
    assert [token for token in range(8) if matcher.is_stop(token)] == [3, 5]


@pytest.mark.parametrize("strings", [[f"s{n}" for n in range(10_000)], ["x" * 5_000]])
def test_more_than_can_be_watched_for_is_refused(strings):
    with pytest.raises(RequestError, match="stop strings"):
        StopMatcher(strings)
