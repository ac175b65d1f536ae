"""Errors come back as they left."""

import json

import pytest

from engine import errors
from engine.errors import EngineBusy, HearthError
from engine.service.http.problems import Api, Problem, error_body
from engine.service.wire import error_from_json, error_to_json

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HearthError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
@pytest.mark.parametrize("tell", [error_to_json, lambda error: error_body(Api.HEARTH, Problem(500, error))])
def test_every_kind_comes_back_as_it_left(kind, tell):
    told = json.loads(json.dumps(tell(kind("What.", meaning="Meaning.", action="Do."))))
    back = error_from_json(told)
    assert type(back) is kind
    assert (back.what, back.meaning, back.action) == ("What.", "Meaning.", "Do.")


@pytest.mark.parametrize("tell", [error_to_json, lambda error: error_body(Api.HEARTH, Problem(429, error))])
def test_how_long_to_wait_comes_back(tell):
    assert error_from_json(tell(EngineBusy("Full.", retry_after=2.5))).retry_after == 2.5


@pytest.mark.parametrize("value", [None, [], "error", {}, {"error": "x"}, {"error": None}])
def test_what_is_no_error_is_none(value):
    assert error_from_json(value) is None


def test_an_unknown_kind_and_missing_words_are_still_an_error():
    back = error_from_json({"error": {"kind": "of the future", "what": 3}})
    assert type(back) is HearthError
    assert back.what == "3"
