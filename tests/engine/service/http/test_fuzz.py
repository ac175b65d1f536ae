"""Whatever a body holds, the answer is a 200 or a 4xx in words: never a fault of ours."""

import asyncio
import json

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.service.http.app import build_app

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.sampled_from(
        ["auto", "function", "user", "assistant", "text", "tool_use", "input_text", "json_schema"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "role", "content", "text", "name", "function", "id", "input", "tools", "schema"]
            )
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)

USER = [{"role": "user", "content": "x"}]
GOOD = {
    "/v1/completions": {"model": "tiny", "prompt": "x", "suffix": "y", "stream": True, "stop": ["a"], "n": 2},
    "/v1/chat/completions": {
        "model": "tiny",
        "messages": USER,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": "auto",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
        "reasoning_effort": "low",
        "logprobs": True,
        "stream_options": None,
    },
    "/v1/responses": {
        "model": "tiny",
        "input": USER,
        "text": {},
        "reasoning": {},
        "metadata": {},
        "tool_choice": "none",
    },
    "/v1/embeddings": {"model": "tiny", "input": ["x"], "encoding_format": "float"},
    "/v1/messages": {
        "model": "tiny",
        "max_tokens": 5,
        "messages": USER,
        "system": [],
        "thinking": None,
        "tools": [],
    },
    "/v1/messages/count_tokens": {"model": "tiny", "messages": USER, "output_config": {}},
    "/infill": {
        "input_prefix": "",
        "input_suffix": "",
        "input_extra": [],
        "response_fields": ["content"],
        "seed": -1,
    },
    "/tokenize": {"content": "x"},
    "/detokenize": {"tokens": [1]},
    "/hearth/v1/infill": {"prefix": "", "suffix": "", "sampling": {}, "stop": [], "context": []},
    "/hearth/v1/complete": {"prompt": [1], "constraint": None, "top_logprobs": None},
    "/hearth/v1/chat": {"messages": USER, "tools": [], "constraint": None, "thinking": None},
}


@pytest.fixture
def posted(engine):
    """posted(path, body): the answer to it."""
    app = build_app(engine, token=None)

    async def ask(path, body):
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post(path, content=body, headers={"content-type": "application/json"})

    with asyncio.Runner() as runner:
        yield lambda path, body: runner.run(ask(path, body))


@pytest.mark.parametrize("path", GOOD)
def test_the_bodies_to_start_from_are_good(posted, path):
    response = posted(path, json.dumps(GOOD[path]).encode())
    assert response.status_code in ((200, 400) if path == "/v1/embeddings" else (200,)), response.text


@pytest.mark.parametrize("path", GOOD)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_body_with_odd_values(posted, path, data):
    body = dict(GOOD[path])
    for key in data.draw(st.lists(st.sampled_from([*body, "odd"]), min_size=1, max_size=2)):
        body[key] = data.draw(JSON)
    text = json.dumps(body, ensure_ascii=data.draw(st.booleans())).encode(errors="surrogatepass")
    response = posted(path, text)
    assert response.status_code in (200, 400, 404), response.text
    if response.status_code != 200:
        assert response.json()["error"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/hearth/v1/chat"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_a_body_of_anything(posted, path, body):
    assert posted(path, body).status_code == 400
