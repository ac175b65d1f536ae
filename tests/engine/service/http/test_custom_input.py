"""The input of custom tools, read while the model writes it."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.service.http.openai.responses_tools import CustomInput, input_arguments

TEXTS = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from('"\\/\b\f\n\r\t\0{}é🎉')))
SPACES = st.text(st.sampled_from(" \n\t"), max_size=3)


def read(arguments, cuts):
    """What came piece by piece, and with the end."""
    reader = CustomInput()
    at = [0, *sorted(cut % (len(arguments) + 1) for cut in cuts), len(arguments)]
    pieces = [reader.grow(arguments[start:end]) for start, end in itertools.pairwise(at)]
    return pieces, reader.end(), reader.text


@given(TEXTS, st.booleans(), st.lists(st.integers(0, 1000)), SPACES, SPACES)
def test_any_text_comes_through_whatever_the_cuts(text, escaped, cuts, before, between):
    arguments = f'{before}{{"input"{between}:{before}{json.dumps(text, ensure_ascii=escaped)}{between}}}'
    pieces, rest, whole = read(arguments, cuts)
    assert "".join(pieces) == whole == text
    assert rest == ""


@given(TEXTS, st.booleans(), st.integers(0, 1000))
def test_of_what_was_cut_off_comes_the_beginning(text, escaped, cut):
    arguments = json.dumps({"input": text}, ensure_ascii=escaped)
    *_, whole = read(arguments[: cut % len(arguments)], [])
    assert text.startswith(whole)


@given(TEXTS)
def test_what_a_client_sends_back_reads_the_same(text):
    assert read(input_arguments(text), [])[2] == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"patch": "x"}', '{"patch": "x"}'),
        ('{"input": 7}', '{"input": 7}'),
        ('{"why": "w", "input": "x"}', "x"),
        (r'{"input": "a\ud83d"}', "a?"),
        (r'{"input": "\ud83d\ude00b"}', "😀b"),
        ('{"inp', ""),
        ("", ""),
    ],
)
def test_arguments_of_another_shape(arguments, text):
    assert read(arguments, range(1, len(arguments)))[2] == text
