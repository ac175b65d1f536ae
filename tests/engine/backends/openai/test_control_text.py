"""No piece of a text may spell a control token, whatever the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backends.openai.control_text import harmless_pieces, spells_control
from engine.prompts.families import FAMILIES

SPELLINGS = [
    *sorted({one for family in FAMILIES for one in (*family.markers, *family.stops)}),
    "<|im_start|>",
    "<|start_header_id|>",
    "<think>",
    "</tool_call>",
    "<s>",
    "<start_of_turn>",
    "[INST]",
    "[/INST]",
    "<reserved_special_token_7>",
    "<unused12>",
    "<|assistant|>",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_known_spelling_is_seen(spelling):
    assert spells_control(f"a{spelling}b")


@given(
    st.lists(st.sampled_from(SPELLINGS) | st.text(max_size=3) | st.sampled_from("<|>[]/\uff5c"), max_size=12)
)
def test_the_pieces_are_the_text_and_spell_nothing(parts):
    text = "".join(parts)
    pieces = harmless_pieces(text)
    assert "".join(pieces) == text
    assert not any(spells_control(piece) for piece in pieces)
    assert not any(spelling in piece for piece in pieces for spelling in SPELLINGS)


@pytest.mark.parametrize(
    "code",
    [
        "if a < b || c > d:\n    return x[i] | y\n",
        "Map<String, List<Integer>> m = new HashMap<>();",
        "<div className={a}><table></table></div>",
        "std::vector<std::pair<int, int>> v; a <<= 2; b >>= 1;",
        "let f = |x| x + 1; match y { A | B => [0], _ => [1] }",
    ],
)
def test_usual_code_is_sent_as_it_is(code):
    assert harmless_pieces(code) == [code]
