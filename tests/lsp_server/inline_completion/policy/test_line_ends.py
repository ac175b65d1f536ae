import pytest

from lsp_server.inline_completion.policy import line_ends
from lsp_server.inline_completion.policy.line_ends import clip_prefix, clip_suffix, inside_line_end, lf_offset


def lines(count, line_end="\n"):
    return "".join(f"line number {number}{line_end}" for number in range(count))


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_short_texts_are_whole(line_end):
    text = lines(3, line_end)
    assert clip_prefix(text, len(text)) == clip_suffix(text, 0) == lines(3)


def test_long_texts_are_cut_at_lines_and_stay_in_their_limits():
    text = lines(10_000)
    prefix, suffix = clip_prefix(text, len(text)), clip_suffix(text, 0)
    assert text.endswith(prefix)
    assert text.startswith(suffix)
    assert prefix.startswith("line number")
    assert suffix.endswith("\n")
    assert line_ends.PREFIX_LIMIT - line_ends.PREFIX_STEP - 100 < len(prefix) <= line_ends.PREFIX_LIMIT
    assert line_ends.SUFFIX_LIMIT - 100 < len(suffix) <= line_ends.SUFFIX_LIMIT


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_twins_are_cut_at_the_same_place(line_end):
    plain, twin = lines(5_000), lines(5_000, line_end)
    assert clip_prefix(twin, len(twin)) == clip_prefix(plain, len(plain))
    assert clip_suffix(twin, 0) == clip_suffix(plain, 0)


def test_empty_crlf_lines_are_cut_at_the_same_place():
    assert clip_prefix("\r\n" * 50_000, 100_000) == clip_prefix("\n" * 50_000, 50_000)
    assert clip_suffix("\r\n" * 50_000, 0) == clip_suffix("\n" * 50_000, 0)


def test_the_start_stays_while_the_user_types():
    text = lines(6_000)
    starts = {len(text[:end]) - len(clip_prefix(text, end)) for end in range(60_000, 60_000 + 3 * 8_000, 50)}
    assert len(starts) <= 4


def test_one_huge_line_is_cut_in_the_line():
    text = "x" * 2_000_000
    assert 0 < len(clip_prefix(text, 1_000_000)) <= line_ends.PREFIX_LIMIT
    assert len(clip_suffix(text, 1_000_000)) == line_ends.SUFFIX_LIMIT


def test_inside_a_crlf():
    assert [inside_line_end("a\r\nb", offset) for offset in range(5)] == [False, False, True, False, False]
    assert not inside_line_end("a\rb", 2)


def test_lf_offset_counts_a_crlf_once():
    assert lf_offset("a\r\nb\rc\nd", 8) == 7
