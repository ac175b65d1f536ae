from hypothesis import given
from hypothesis import strategies as st

from lsp_server.inline_completion.policy.utf16 import code_points


def test_inside_a_pair_rounds_down():
    assert [code_points("a😀b", units) for units in range(6)] == [0, 1, 1, 2, 3, 3]


@given(st.text(), st.integers(0, 50))
def test_agrees_with_the_codec(text, units):
    assert len(text[: code_points(text, units)].encode("utf-16-le")) <= 2 * units
    assert code_points(text, len(text.encode("utf-16-le")) // 2) == len(text)
