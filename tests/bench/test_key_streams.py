"""The keys that are typed give the texts they are meant to give."""

from __future__ import annotations

import ast

import pytest

from bench.key_streams import BACKSPACE, Stream, cut_function, long_file, streams, with_errors


def typed_out(keys: str) -> str:
    text = ""
    for key in keys:
        text = text[:-1] if key == BACKSPACE else text + key
    return text


@pytest.mark.parametrize("stream", streams(), ids=lambda stream: stream.name)
def test_streams_are_plain_and_have_errors(stream: Stream) -> None:
    assert (stream.before + stream.after + stream.typed).isascii()
    assert BACKSPACE in stream.typed
    if stream.language == "python":
        ast.parse(stream.before + typed_out(stream.typed) + stream.after)


def test_the_long_file_is_long_and_typed_in_its_middle() -> None:
    stream = long_file()
    assert stream.before.count("\n") > 1000
    assert stream.after.count("\n") > 800


def test_a_function_is_cut_out_whole() -> None:
    text = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        pass\n"
    before, function, after = cut_function(text, "f")
    assert before + function + after == text
    assert function == "def f(self):\n        return 1"


def test_errors_are_taken_back() -> None:
    text = "for item in items:\n    total += item\n" * 8
    keys = with_errors(text)
    assert typed_out(keys) == text
    assert keys.count(BACKSPACE) >= 4
