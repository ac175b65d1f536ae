"""Completions, models and embeddings by OpenAI's own client."""

import numpy as np
import openai
import pytest

from engine.errors import EngineUnavailable, RequestError
from engine.generation.embedding import Embeddings
from engine.types import CompletionRequest, FinishReason, InfillRequest, TextDelta


@pytest.fixture
def client(server):
    return openai.AsyncOpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0, http_client=server.client()
    )


async def test_a_completion(client, engine):
    answer = await client.completions.create(model="tiny", prompt="x", stop="z", seed=3)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("one two", "stop")
    assert answer.usage.total_tokens == 13
    request = engine.request
    assert isinstance(request, CompletionRequest)
    assert (request.prompt, request.max_tokens, request.stop, request.sampling.seed) == ("x", 16, ("z",), 3)


async def test_a_suffix_makes_it_a_hole(client, engine):
    answer = await client.completions.create(model="tiny", prompt="a(", suffix=")", max_tokens=5, echo=True)
    assert answer.choices[0].text == "a(one two"
    assert isinstance(engine.request, InfillRequest)
    assert (engine.request.prefix, engine.request.suffix, engine.request.max_tokens) == ("a(", ")", 5)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("x", ["x"]),
        ([104, 105], [(104, 105)]),
        (["x", "y"], ["x", "y"]),
        ([[104], [105, 106]], [(104,), (105, 106)]),
    ],
)
async def test_every_form_of_prompt(client, engine, prompt, prompts):
    answer = await client.completions.create(model="tiny", prompt=prompt, n=2, echo=True)
    assert [request.prompt for request in engine.requests] == [one for one in prompts for _ in range(2)]
    echoes = [one if isinstance(one, str) else bytes(one).decode() for one in prompts]
    assert [choice.text for choice in answer.choices] == [
        f"{echo}one two" for echo in echoes for _ in range(2)
    ]
    assert [choice.index for choice in answer.choices] == list(range(2 * len(prompts)))
    assert answer.usage.prompt_tokens == 10 * len(prompts)
    assert answer.usage.completion_tokens == 6 * len(prompts)


async def test_a_stream(client):
    stream = await client.completions.create(
        model="tiny", prompt="x", stream=True, echo=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert [chunk.choices[0].text for chunk in chunks[:-1]] == ["xone ", "two"]
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], 13)


async def test_log_probabilities_and_offsets(client, engine, logprob):
    """The euro sign comes in two tokens; what follows it stands one character on."""
    euro = "€".encode()
    engine.texts = [
        TextDelta("a", logprobs=(logprob(b"a", -0.1, logprob(b"a", -0.1), logprob(b"b", -2.0)),)),
        TextDelta("", logprobs=(logprob(euro[:2], -0.2),)),
        TextDelta("€c", logprobs=(logprob(euro[2:], -0.3), logprob(b"c", -0.4))),
        TextDelta("", finish=FinishReason.STOP, timing=engine.texts[-1].timing),
    ]
    answer = await client.completions.create(model="tiny", prompt="x", logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert logprobs.tokens == ["a", "bytes:\\xe2\\x82", "bytes:\\xac", "c"]
    assert logprobs.token_logprobs == [-0.1, -0.2, -0.3, -0.4]
    assert logprobs.text_offset == [0, 1, 1, 2]
    assert logprobs.top_logprobs[0] == {"a": -0.1, "b": -2.0}
    stream = await client.completions.create(model="tiny", prompt="x", logprobs=2, stream=True)
    offsets = [offset async for chunk in stream for offset in chunk.choices[0].logprobs.text_offset]
    assert offsets == logprobs.text_offset


async def test_a_failure_within_a_stream(client, engine):
    engine.texts = [TextDelta("one"), EngineUnavailable("The engine fell over.")]
    stream = await client.completions.create(model="tiny", prompt="x", stream=True)
    with pytest.raises(openai.APIError, match="fell over"):
        async for _ in stream:
            pass


async def test_an_engine_that_cancels_by_itself_is_a_failure(client, engine):
    engine.texts = [TextDelta("", finish=FinishReason.CANCELLED)]
    with pytest.raises(openai.InternalServerError, match="cancelled"):
        await client.completions.create(model="tiny", prompt="x")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": [-1]}, "prompt.0"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": ["x"] * 17}, "prompt"),
        ({"best_of": 2}, "best_of"),
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"suffix": "", "logprobs": 1}, "logprobs"),
        ({"suffix": "", "prompt": [1]}, "suffix"),
        ({"logprobs": 21}, "logprobs"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"tools": []}, "tools"),
    ],
)
async def test_what_is_refused(ask, engine, fields, field):
    response = await ask("/v1/completions", {"model": "tiny", "prompt": "x", **fields})
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith(field)
    assert not engine.requests


async def test_models(client):
    models = await client.models.list()
    assert [(model.id, model.created) for model in models.data] == [("tiny", 7), ("other/one", 0)]
    assert (await client.models.retrieve("default")).id == "tiny"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("no")


async def test_a_model_whose_name_has_a_slash(server):
    response = await server.client().get("/v1/models/other/one")
    assert response.json()["id"] == "other/one"


@pytest.mark.parametrize("encoding", ["float", "base64"])
async def test_embeddings(client, engine, encoding):
    engine.embeddings = Embeddings(list(np.array([[0.5, -1.0], [0.25, 2.0]], np.float32)), tokens=4)
    answer = await client.embeddings.create(model="tiny", input=["a", "b"], encoding_format=encoding)
    vectors = [entry.embedding for entry in answer.data]
    if encoding == "base64":
        assert vectors == ["AAAAPwAAgL8=", "AACAPgAAAEA="]
    else:
        assert vectors == [[0.5, -1.0], [0.25, 2.0]]
    assert answer.usage.total_tokens == 4
    assert engine.request == ["a", "b"]


async def test_embeddings_as_the_client_asks_by_itself(client, engine):
    engine.embeddings = Embeddings([np.array([0.5, -1.0], np.float32)], tokens=2)
    answer = await client.embeddings.create(model="tiny", input="a")
    assert answer.data[0].embedding == [0.5, -1.0]


async def test_embeddings_are_the_same_numbers_in_both_encodings(client, engine):
    vectors = np.random.default_rng(1).standard_normal((3, 50)).astype(np.float32)
    engine.embeddings = Embeddings(list(vectors), tokens=9)
    as_numbers = await client.embeddings.create(model="tiny", input=["a", "b", "c"], encoding_format="float")
    decoded = await client.embeddings.create(model="tiny", input=["a", "b", "c"])
    assert [entry.index for entry in decoded.data] == [0, 1, 2]
    for entry, other, vector in zip(as_numbers.data, decoded.data, vectors, strict=True):
        assert entry.embedding == other.embedding == vector.tolist()


async def test_embeddings_are_counted(server, client, engine):
    engine.embeddings = Embeddings([np.ones(2, np.float32)] * 2, tokens=7)
    await client.embeddings.create(model="tiny", input=["a", "b"])
    shown = (await server.client().get("/metrics")).text
    assert "hearth_embedded_texts_total 2.0" in shown
    assert "hearth_embedded_tokens_total 7.0" in shown


@pytest.mark.parametrize("field", [{"dimensions": 256}, {"encoding_format": "int8"}, {"truncate": True}])
async def test_embeddings_with_what_is_not_supported(ask, engine, field):
    response = await ask("/v1/embeddings", {"model": "tiny", "input": "a"} | field)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == next(iter(field))
    assert not engine.requests


@pytest.mark.parametrize("given", ["", [], [""], [1, 2], [[1]], None, ["x"] * 2049, ["x"] * 10_000])
async def test_embeddings_of_what_is_no_text(ask, engine, given):
    response = await ask("/v1/embeddings", {"model": "tiny", "input": given})
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith("input")
    assert not engine.requests


async def test_a_model_without_embeddings_says_so(client, engine):
    engine.embeddings = RequestError("This model makes no embeddings.")
    with pytest.raises(openai.BadRequestError, match="makes no embeddings"):
        await client.embeddings.create(model="tiny", input="a")
