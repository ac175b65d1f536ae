"""The reader of server-sent events: whatever the cuts, the events are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backends.openai.failures import MalformedAnswer
from engine.backends.openai.sse import SseReader

LINE_TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\n"), max_size=12)
LINE_END = st.sampled_from(["\n", "\r\n", "\r"])


def read(text: bytes, cuts=(), **options) -> tuple[list[str], bool]:
    reader, events, start = SseReader(**options), [], 0
    for cut in [*sorted(cuts), len(text)]:
        events += reader.feed(text[start:cut])
        start = cut
    return events, reader.inside


@st.composite
def streams(draw):
    """A stream's text with one kind of line ends, and the data of its events."""
    end = draw(LINE_END)
    lines, events = [], []
    for _ in range(draw(st.integers(0, 5))):
        data = draw(st.lists(LINE_TEXT, min_size=1, max_size=3))
        events.append("\n".join(data))
        for one in data:
            lines += draw(
                st.lists(st.sampled_from([": comment", ":", "event: x", "id: 7", "retry: 3"]), max_size=2)
            )
            lines.append(f"data:{' ' if one.startswith(' ') else draw(st.sampled_from([' ', '']))}{one}")
        lines.append("")
    return "".join(line + end for line in lines).encode(), [event for event in events if event]


@given(streams(), st.data())
def test_whatever_the_cuts_the_events_are_those_that_were_written(stream, data):
    text, events = stream
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=20))
    assert read(text) == (events, False)
    assert read(text, cuts) == (events, False)
    assert read(text, range(len(text))) == (events, False)


@given(st.binary(max_size=200), st.data())
def test_hostile_bytes_end_in_words_or_events_and_the_same_for_any_cuts(text, data):
    def outcome(cuts):
        try:
            return read(text, cuts, largest_event=50)[0]
        except MalformedAnswer as error:
            return str(error)

    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=10))
    whole, cut = outcome(()), outcome(cuts)
    # What is too large is seen sooner when it comes in pieces; everything else is the same.
    assert whole == cut or "larger" in str(cut) or "larger" in str(whole)


def test_a_byte_order_mark_at_the_start_is_skipped_however_it_comes():
    assert read(b"\xef\xbb\xbfdata: a\n\n", cuts=(1, 2)) == (["a"], False)


def test_an_event_that_has_not_ended_is_not_given():
    assert read(b"data: a\n\ndata: b\n") == (["a"], True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"<html>\n", "not a server-sent event"),
        (b"error: x\n", "not a server-sent event"),
        (b"data: \xff\n\n", "UTF-8"),
        (b"data: " + b"x" * 100, "larger"),
        (b"data: x\n" * 20, "larger"),
        (b":" + b"x" * 100, "larger"),
    ],
)
def test_what_is_no_event_stream_is_refused(text, told):
    for cuts in ((), range(len(text))):
        with pytest.raises(MalformedAnswer, match=told):
            read(text, cuts, largest_event=64)
