"""The whole of it on a tiny model with random weights: its text means nothing, but every part runs."""

import asyncio

import anthropic
import numpy as np
import openai
import pytest

from engine.client.in_process import open_in_process
from engine.service.host import ModelHost
from engine.service.http.app import build_app
from engine.service.served import ServedModel

USER = [{"role": "user", "content": "Hi"}]


@pytest.fixture
async def running(tiny_model, serve):
    async def open_model(name, threads):
        return open_in_process(tiny_model("qwen2"), threads=1, context_tokens=512)

    async def known_models(used):
        return [ServedModel("tiny")]

    host = ModelHost(open_model, known_models, default="tiny", idle_seconds=0)
    try:
        async with serve(build_app(host, token=None)) as served:
            served.host = host
            yield served
    finally:
        await host.close()


@pytest.fixture
def client(running):
    return openai.AsyncOpenAI(
        base_url=f"{running.url}/v1", api_key="none", max_retries=0, http_client=running.client()
    )


async def test_a_completion_is_the_same_streamed_and_whole(client):
    options = {"model": "tiny", "prompt": "def f(", "max_tokens": 8, "logprobs": 2}
    whole = await client.completions.create(**options)
    stream = await client.completions.create(**options, stream=True)
    pieces = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in pieces) == whole.choices[0].text
    assert whole.usage.completion_tokens == len(whole.choices[0].logprobs.tokens) == 8
    assert whole.choices[0].finish_reason == pieces[-1].choices[0].finish_reason == "length"


async def test_choices_with_one_seed_are_the_same_again(client):
    options = {"model": "tiny", "prompt": "x", "max_tokens": 6, "n": 3, "seed": 4, "temperature": 1.5}
    first = await client.completions.create(**options)
    again = await client.completions.create(**options)
    assert [choice.text for choice in first.choices] == [choice.text for choice in again.choices]
    assert len({choice.text for choice in first.choices}) > 1


async def test_a_hole(running):
    body = {"input_prefix": "def f(", "input_suffix": "):\n", "n_predict": 4}
    answer = (await running.client().post("/infill", json=body)).json()
    assert answer["tokens_predicted"] <= 4
    assert answer["tokens_evaluated"] > 0


async def test_a_chat_in_every_api(client, running):
    chat = await client.chat.completions.create(model="tiny", messages=USER, max_tokens=6)
    assert chat.usage.completion_tokens <= 6
    response = await client.responses.create(model="tiny", input=USER, max_output_tokens=6)
    assert response.usage.output_tokens <= 6
    claude = anthropic.AsyncAnthropic(
        base_url=running.url, api_key="none", max_retries=0, http_client=running.client()
    )
    async with claude.messages.stream(model="tiny", max_tokens=6, messages=USER) as stream:
        message = await stream.get_final_message()
    assert message.usage.output_tokens <= 6
    counted = await claude.messages.count_tokens(model="tiny", messages=USER)
    assert counted.input_tokens == message.usage.input_tokens + message.usage.cache_read_input_tokens


async def test_a_constrained_chat_holds_to_its_schema(client):
    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["x", "yy"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    chat = await client.chat.completions.create(
        model="tiny",
        messages=USER,
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
        max_tokens=200,
        seed=1,
        temperature=1,
    )
    assert chat.choices[0].message.content.replace(" ", "").replace("\n", "") in ('{"a":"x"}', '{"a":"yy"}')


async def test_a_prompt_that_is_too_long_says_by_how_much(client):
    with pytest.raises(openai.BadRequestError, match=r"\d+ tokens") as refused:
        await client.completions.create(model="tiny", prompt="x y z " * 1000, max_tokens=4)
    assert refused.value.code == "context_length_exceeded"


async def test_tokens_there_and_back(running):
    client = running.client()
    tokens = (
        await client.post("/tokenize", json={"content": "hé <|im_end|>", "parse_special": False})
    ).json()["tokens"]
    assert (await client.post("/detokenize", json={"tokens": tokens})).json()["content"] == "hé <|im_end|>"


async def test_a_token_outside_the_vocabulary_is_refused(client, running):
    with pytest.raises(openai.BadRequestError):
        await client.completions.create(model="tiny", prompt=[2**31 - 1], max_tokens=1)
    response = await running.client().post("/detokenize", json={"tokens": [2**31 - 1]})
    assert response.status_code in (200, 400)


TEXTS = ["def f(x):\n    return x", "the reader", "the reader"]


async def test_embeddings_are_the_same_as_numbers_and_as_bytes(client):
    as_numbers = await client.embeddings.create(model="tiny", input=TEXTS, encoding_format="float")
    as_bytes = await client.embeddings.create(model="tiny", input=TEXTS)
    vectors = np.array([entry.embedding for entry in as_bytes.data], np.float32)
    assert [entry.embedding for entry in as_numbers.data] == [entry.embedding for entry in as_bytes.data]
    assert np.array_equal(vectors[1], vectors[2])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert as_bytes.usage.prompt_tokens == as_bytes.usage.total_tokens > 10


async def test_as_many_texts_as_openai_allows(client):
    made = await client.embeddings.create(model="tiny", input=["a", "b"] * 1024)
    assert [entry.index for entry in made.data] == list(range(2048))
    assert made.usage.total_tokens == 2048


async def test_a_text_to_embed_that_is_too_long_says_which_and_by_how_much(client):
    with pytest.raises(openai.BadRequestError, match=r"index 2 has 4000 tokens, 3488 too many") as refused:
        await client.embeddings.create(model="tiny", input=["a", "b", "ü" * 2000])
    assert refused.value.code == "context_length_exceeded"


async def test_too_many_tokens_to_embed_at_once(client):
    with pytest.raises(openai.BadRequestError, match=r"one call may have 300000"):
        await client.embeddings.create(model="tiny", input=["a " * 250] * 1500)


async def test_too_many_texts_to_embed_at_once(client):
    with pytest.raises(openai.BadRequestError, match=r"input: It has 2049 entries; one call may have 2048"):
        await client.embeddings.create(model="tiny", input=["a"] * 2049)


async def test_embeddings_end_when_their_time_is_over(running):
    body = {"model": "tiny", "input": [f"{n} " * 100 for n in range(500)]}
    response = await running.client().post("/v1/embeddings", json=body, headers={"X-Request-Timeout": "0.3"})
    assert response.status_code == 504
    assert "time was over" in response.json()["error"]["message"]
    while running.host.counts.running:
        await asyncio.sleep(0)
    assert running.host.metrics().prefilled_tokens < 500 * 200


async def test_a_client_that_leaves_ends_its_embeddings(running):
    body = {"model": "tiny", "input": [f"{n} " * 100 for n in range(500)]}
    asking = asyncio.create_task(running.client().post("/v1/embeddings", json=body))
    while (await running.host.status()).state != "busy":
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    while running.host.counts.running:
        await asyncio.sleep(0)
    metrics = running.host.metrics()
    assert metrics.prefilled_tokens < 500 * 200
    assert metrics.kv_free_tokens == metrics.kv_tokens
