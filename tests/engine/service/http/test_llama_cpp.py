"""llama.cpp's routes, as its editor plugins use them."""

import json

import pytest

from engine.errors import EngineUnavailable
from engine.types import ContextFile, FinishReason, InfillRequest, TextDelta

HOLE = {"input_prefix": "a(", "input_suffix": ")\n"}


async def test_infill(ask, engine):
    body = {
        **HOLE,
        "prompt": "b",
        "input_extra": [{"filename": "x.py", "text": "import y"}, {"text": "z"}],
        "n_predict": 5,
        "top_k": 40,
        "top_p": 0.9,
        "repeat_penalty": 1.1,
        "stop": ["\n\n"],
    }
    answer = (await ask("/infill", body)).json()
    request = engine.request
    assert isinstance(request, InfillRequest)
    assert (request.prefix, request.suffix, request.max_tokens, request.stop) == ("a(b", ")\n", 5, ("\n\n",))
    assert request.context == (ContextFile("x.py", "import y"), ContextFile("", "z"))
    assert (request.sampling.top_k, request.sampling.top_p, request.sampling.repetition_penalty) == (
        40,
        0.9,
        1.1,
    )
    assert (answer["content"], answer["stop"], answer["stop_type"]) == ("one two", True, "eos")
    assert (answer["tokens_predicted"], answer["tokens_evaluated"]) == (3, 10)
    assert answer["timings"]["cache_n"] == 4
    assert answer["timings"]["prompt_n"] == 6
    assert answer["timings"]["predicted_per_second"] == pytest.approx(15)


async def test_what_the_vim_plugin_sends(ask, engine):
    body = {
        **HOLE,
        "id_slot": 0,
        "input_extra": [],
        "prompt": "",
        "n_predict": 128,
        "stop": [],
        "n_indent": 4,
        "top_k": 40,
        "top_p": 0.90,
        "stream": False,
        "samplers": ["top_k", "top_p", "infill"],
        "cache_prompt": True,
        "t_max_prompt_ms": 500,
        "t_max_predict_ms": 1000,
        "response_fields": ["content", "timings/prompt_n", "timings/predicted_ms", "truncated", "no/such"],
    }
    response = await ask("/infill", body)
    assert response.json() == {
        "content": "one two",
        "timings/prompt_n": 6,
        "timings/predicted_ms": 200.0,
        "truncated": False,
    }


async def test_nothing_to_predict_warms_the_cache(ask, engine):
    response = await ask("/infill", {**HOLE, "n_predict": 0})
    assert response.json()["content"] == ""
    assert engine.request.max_tokens == 0
    assert not engine.started.is_set()


async def test_a_stream(ask, engine):
    response = await ask("/infill", {**HOLE, "stream": True})
    assert response.headers["content-type"] == "text/event-stream"
    events = [json.loads(line.removeprefix("data: ")) for line in response.text.split("\n\n") if line]
    assert [event["content"] for event in events] == ["one ", "two"]
    assert [event["stop"] for event in events] == [False, True]


async def test_why_it_stopped(ask, engine):
    engine.texts = [TextDelta("a", finish=FinishReason.STOP, stop="X")]
    answer = (await ask("/infill", HOLE)).json()
    assert (answer["stop_type"], answer["stopping_word"]) == ("word", "X")
    engine.texts = [TextDelta("a", finish=FinishReason.LENGTH)]
    assert (await ask("/infill", HOLE)).json()["stop_type"] == "limit"


async def test_a_failure_within_a_stream(ask, engine):
    engine.texts = [TextDelta("a"), EngineUnavailable("The engine fell over.")]
    response = await ask("/infill", {**HOLE, "stream": True})
    assert json.loads(response.text.split("data: ")[-1])["error"]["message"] == "The engine fell over."


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"input_prefix": 1}, "input_prefix"),
        ({"n_predict": -2}, "n_predict"),
        ({"n_probs": 3}, "n_probs"),
        ({"grammar": "root ::= x"}, "grammar"),
        ({"input_extra": [{"filename": "x"}]}, "input_extra.0.text"),
        ({"input_extra": [{"text": ""}] * 257}, "input_extra"),
        ({"mirostat": 1}, "mirostat"),
    ],
)
async def test_what_is_refused(ask, engine, fields, field):
    response = await ask("/infill", {**HOLE, **fields})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["type"]) == (400, "invalid_request_error")
    assert error["message"].startswith(f"{field}: ")
    assert not engine.requests


async def test_tokens_there_and_back(ask, engine):
    assert (await ask("/tokenize", {"content": "hi"})).json() == {"tokens": [104, 105]}
    assert engine.request == ("hi", True)
    await ask("/tokenize", {"content": "hi", "parse_special": False})
    assert engine.request == ("hi", False)
    assert (await ask("/detokenize", {"tokens": [104, 105]})).json() == {"content": "hi"}
    assert (await ask("/detokenize", {"tokens": [-1]})).status_code == 400


@pytest.mark.parametrize(
    ("state", "status"), [("ready", 200), ("busy", 200), ("unloaded", 200), ("loading", 503), ("failed", 503)]
)
async def test_health(server, engine, state, status):
    engine.state = state
    assert (await server.client().get("/health")).status_code == status


async def test_props(server):
    props = (await server.client().get("/props")).json()
    assert props["default_generation_settings"]["n_ctx"] == 512
    assert props["model_alias"] == "tiny"
