"""A load that is told to stop: at the next tensor, and nothing of it is left."""

import pytest

from engine import _native


def test_it_asks_before_each_tensor_and_stops_when_told(tiny_model):
    gguf = _native.GgufFile(tiny_model("qwen2", "Q4_0"))
    asked = 0

    def count():
        nonlocal asked
        asked += 1
        return False

    assert _native.Model(gguf, cancelled=count).n_vocab > 0
    assert asked >= len(gguf.tensors) - 1  # the table of the embedding may be read row by row
    for stop_at in range(1, asked + 1):
        left = stop_at

        def stop():
            nonlocal left
            left -= 1
            return left == 0

        with pytest.raises(_native.Cancelled):
            _native.Model(gguf, cancelled=stop)
        assert left == 0
    assert _native.Model(gguf).n_vocab > 0


@pytest.mark.parametrize(
    ("answer", "raised"), [(lambda: 1 / 0, ZeroDivisionError), (lambda: "no", RuntimeError), (3, TypeError)]
)
def test_what_the_question_raises_ends_the_load(tiny_model, answer, raised):
    gguf = _native.GgufFile(tiny_model("qwen2", "Q4_0"))
    with pytest.raises(raised):
        _native.Model(gguf, cancelled=answer)
