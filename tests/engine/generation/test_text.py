"""Drawing, decoding, stopping and token healing, over a vocabulary of a few tokens."""

import numpy as np
import pytest

from engine.errors import HearthError
from engine.generation.drawing import TokenDrawer
from engine.generation.text import ForcedStart, TextOutput
from engine.prompts import VocabularyTrie
from engine.sampling import Sampler, StopMatcher
from engine.types import FinishReason, SamplingParams, TextDelta

SPELLINGS = [b"", b"a", b"b", b"\xc3", b"\xa9", b"ca", b"cat", b"cats", b"c", b"\n", b"t!"]
END, A, B, E1, E2, CA, CAT, CATS, C, LINE, T = range(len(SPELLINGS))


class Vocabulary:
    vocab_size = len(SPELLINGS)

    def token_bytes(self, token):
        return SPELLINGS[token]


@pytest.fixture
def output():
    def make(*, stop=(), forced=b"", top=None):
        tokenizer = Vocabulary()
        start = ForcedStart(forced, tokenizer, VocabularyTrie(tokenizer))
        drawer = TokenDrawer(Sampler(SamplingParams()), tokenizer, top=top)
        return TextOutput(drawer, StopMatcher(stop, {END}), start)

    return make


def logits(*best):
    """The first of `best` is the likeliest token, and so on."""
    row = np.zeros(len(SPELLINGS), np.float32)
    for place, token in enumerate(best):
        row[token] = 10 - place
    return row


def draw(output, *tokens):
    return [output.draw(logits(token), [1]) for token in tokens]


def test_a_token_becomes_its_text_with_its_probability(output):
    (drawn,) = draw(output(), A)
    assert (drawn.token, drawn.text, drawn.finish) == (A, "a", None)
    expected = 10 - np.log(np.exp(10) + len(SPELLINGS) - 1)
    assert drawn.logprob == pytest.approx(expected, rel=1e-5)


def test_a_character_in_two_tokens_comes_out_whole(output):
    assert [drawn.text for drawn in draw(output(), A, E1, E2)] == ["a", "", "é"]


def test_an_end_token_stops_and_releases_what_was_held(output):
    out = output(stop=["bb"])
    drawn = draw(out, A, B, END)
    assert [d.text for d in drawn] == ["a", "", "b"]
    assert [d.finish for d in drawn] == [None, None, FinishReason.STOP]


def test_a_stop_string_over_token_borders_stops_and_is_not_shown(output):
    drawn = draw(output(stop=["ab\n"]), B, A, B, LINE)
    assert "".join(d.text for d in drawn) == "b"
    assert drawn[-1].finish is FinishReason.STOP


def test_the_last_delta_tells_the_stop_string(output):
    out = output(stop=["\n", "ab"])
    draw(out, A, B)
    (delta,) = out.deltas(TextDelta("", finish=FinishReason.STOP))
    assert delta.stop == "ab"
    out = output(stop=["ab"])
    draw(out, A, END)
    assert list(out.deltas(TextDelta("a", finish=FinishReason.STOP))) == [
        TextDelta("a", finish=FinishReason.STOP)
    ]


def test_flush_gives_what_length_cut_short(output):
    out = output(stop=["bb"])
    draw(out, B)
    assert out.flush() == "b"
    out = output()
    draw(out, E1)
    assert out.flush() == "\ufffd"


def test_healing_allows_only_tokens_that_spell_the_forced_start_and_hides_it(output):
    out = output(forced=b"cat")
    drawn = out.draw(logits(A, END, CATS), [1])
    assert (drawn.token, drawn.text) == (CATS, "s")
    assert out.draw(logits(A), [1]).text == "a"


def test_healing_over_several_tokens(output):
    out = output(forced=b"cat")
    assert [out.draw(logits(A, best), [1]).text for best in (CA, T)] == ["", "!"]
    assert out.draw(logits(B), [1]).text == "b"


def test_logits_that_are_not_numbers_are_told_in_words(output):
    with pytest.raises(HearthError):
        output().draw(np.full(len(SPELLINGS), np.nan, np.float32), [1])


def test_log_probabilities_wait_for_their_text(output):
    out = output(stop=["bb"], top=2)
    row = logits(A, B)
    assert [out.draw(row, [1]).text, out.draw(logits(B, A), [1]).text] == ["a", ""]
    event = TextDelta("a", 2)
    (delta,) = out.deltas(event)
    first, second = delta.logprobs
    assert (first.token, first.bytes, second.token) == (A, b"a", B)
    assert [other.token for other in first.top] == [A, B]
    assert first.top[0].logprob == first.logprob
    total = np.log(np.exp(row.astype(np.float64)).sum())
    assert first.logprob == pytest.approx(10 - total, rel=1e-5)
    assert first.top[1].logprob == pytest.approx(9 - total, rel=1e-5)
    assert list(out.deltas(event)) == [event]


def test_without_log_probabilities_events_stay_as_they_are(output):
    out = output()
    out.draw(logits(A), [1])
    event = TextDelta("a", 1)
    assert list(out.deltas(event)) == [event]
