"""Bodies that are no good: refused in words, whatever they are."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from engine.service.http import body as bodies
from engine.service.http.body import MAX_DEPTH, MAX_VALUES, parse_json, read_body
from engine.service.http.problems import BadField


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"{'a': 1}", "line 1, column 2"),
        (b'{"a": "\xff"}', "byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "c: The field is there twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too long"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\uDC00": 1}', "surrogate"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "levels"),
        (b"[" * 100_000, "levels"),
        (b"[" + b"1," * (MAX_VALUES - 1) + b"1]", "values"),
        (b"[" + b"[1]," * (MAX_VALUES // 2) + b"1]", "values"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "levels"),
    ],
)
def test_what_is_refused(body, words):
    with pytest.raises(BadField) as refused:
        parse_json(body)
    assert words in str(refused.value)


def test_what_is_let_through():
    nested = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert isinstance(parse_json(nested), list)
    assert isinstance(parse_json(b"[" + b"1," * (MAX_VALUES - 2) + b"1]"), list)
    assert parse_json(b'"\\ud83d\\ude00"') == "😀"
    assert parse_json(b'{"a": "\\\\ud800"}') == {"a": "\\ud800"}


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**18), 10**18)
        | st.text()
        | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
@settings(deadline=None)
def test_it_reads_what_json_writes(value):
    assert parse_json(json.dumps(value).encode()) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary())
@settings(deadline=None)
def test_any_bytes_are_a_value_or_refused(body):
    try:
        parse_json(body)
    except BadField as refused:
        str(refused).encode()


class Inner(BaseModel, extra="forbid", strict=True):
    number: int


class Outer(BaseModel, extra="forbid", strict=True):
    either: str | list[Inner] | None = None
    one: Inner | None = None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"more": 1}', "more"),
        ('{"one": {}}', "one.number"),
        ('{"one": {"number": "1"}}', "one.number"),
        ('{"one": {"number": true}}', "one.number"),
        ('{"either": [{"number": 1}, {"number": 1, "odd": 2}]}', "either.1.odd"),
        ('{"either": 5}', "either"),
    ],
)
def test_the_field_is_named(body, field):
    with pytest.raises(BadField) as refused:
        read_body(body.encode(), TypeAdapter(Outer))
    assert refused.value.field == field


def test_a_name_twice_is_found_in_linear_time():
    """One comparison with each other name would take hours here, on the event loop of all requests."""
    names = ",".join(f'"n{number}":0' for number in range(300_000))
    with pytest.raises(BadField, match="n299999: The field is there twice"):
        parse_json(f'{{{names},"n299999":1}}'.encode())


@pytest.mark.parametrize(
    "wrong", ['"either": [' + "1," * 9_999 + "1]", ",".join(f'"n{number}": 1' for number in range(10_000))]
)
def test_few_of_many_complaints_are_looked_at(wrong, monkeypatch):
    looked_at = []
    path = bodies._path
    monkeypatch.setattr(bodies, "_path", lambda *given, **more: looked_at.append(0) or path(*given, **more))
    with pytest.raises(BadField) as refused:
        read_body(f"{{{wrong}}}".encode(), TypeAdapter(Outer))
    assert refused.value.field
    assert 0 < len(looked_at) <= 1_000


@pytest.mark.parametrize("body", [b"[]", b'"a"', b"null", b"1"])
def test_a_body_is_an_object(body):
    with pytest.raises(BadField, match="must be a JSON object"):
        read_body(body, TypeAdapter(Outer))
