"""How long a request may take, whoever says so."""

import json

import httpx2
import pytest

from engine.errors import DeadlineExceeded
from engine.service.http.app import build_app
from engine.service.http.settings import Limits
from engine.types import ChatDelta

BODIES = {
    "/v1/completions": {"model": "tiny", "prompt": "x"},
    "/v1/chat/completions": {"model": "tiny", "messages": [{"role": "user", "content": "x"}]},
    "/v1/responses": {"model": "tiny", "input": "x"},
    "/v1/messages": {"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]},
    "/infill": {"input_prefix": "a", "input_suffix": "b"},
    "/hearth/v1/infill": {"prefix": "a", "suffix": "b"},
    "/hearth/v1/complete": {"prompt": "a"},
    "/hearth/v1/chat": {"messages": [{"role": "user", "content": "x"}]},
    "/hearth/v1/warm": {"prefix": "a", "suffix": "b"},
}


@pytest.fixture
def asking(engine):
    def make(longest=None):
        app = build_app(engine, token=None, limits=Limits(request_seconds=longest))
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")

    return make


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("streamed", [False, True])
async def test_every_generation_gets_what_is_left_of_the_requests_time(asking, engine, path, streamed):
    body = BODIES[path] | ({"stream": True} if streamed and not path.startswith("/hearth") else {})
    async with asking() as client:
        assert (await client.post(path, json=body)).is_success
        assert engine.request.timeout_s is None
        assert (await client.post(path, json=body, headers={"x-request-timeout": "30.5"})).is_success
    assert 30 < engine.request.timeout_s <= 30.5


async def test_every_choice_gets_it(asking, engine):
    body = {"model": "tiny", "prompt": ["x", "y"], "n": 2}
    async with asking() as client:
        await client.post("/v1/completions", json=body, headers={"x-request-timeout": "30"})
    assert len(engine.requests) == 4
    assert all(0 < request.timeout_s <= 30 for request in engine.requests)


@pytest.mark.parametrize(
    ("longest", "header", "field", "seconds"),
    [
        (20.0, None, None, 20),
        (20.0, "10", None, 10),
        (20.0, "3600", None, 20),
        (20.0, "15", 5, 5),
        (None, "15", 50, 15),
        (None, None, 7, 7),
    ],
)
async def test_the_shortest_holds(asking, engine, longest, header, field, seconds):
    headers = {} if header is None else {"x-request-timeout": header}
    async with asking(longest) as client:
        await client.post(
            "/hearth/v1/infill", json=BODIES["/hearth/v1/infill"] | {"timeout_s": field}, headers=headers
        )
    assert seconds / 2 < engine.request.timeout_s <= seconds


@pytest.mark.parametrize("value", ["", "0", "-1", "nan", "inf", "1e9", "10s", "1, 2"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/hearth/v1/chat"])
async def test_a_bad_header_is_told(asking, engine, path, value):
    async with asking() as client:
        response = await client.post(path, json=BODIES[path], headers={"x-request-timeout": value})
    assert response.status_code == 400
    assert "X-Request-Timeout: " in response.text
    assert not engine.requests


@pytest.mark.parametrize("value", [0, -1, 1e9])
async def test_a_bad_field_is_told(asking, engine, value):
    async with asking() as client:
        response = await client.post("/hearth/v1/chat", json=BODIES["/hearth/v1/chat"] | {"timeout_s": value})
    assert response.status_code == 400
    assert response.json()["error"]["what"].startswith("timeout_s: ")
    assert not engine.requests


@pytest.mark.parametrize("path", [path for path in BODIES if path != "/hearth/v1/warm"])
async def test_a_deadline_that_has_passed_is_a_504(asking, engine, path):
    engine.chats = engine.texts = [DeadlineExceeded("Too late.", action="Come earlier.")]
    async with asking() as client:
        response = await client.post(path, json=BODIES[path])
    assert response.status_code == 504
    assert "Too late." in response.text


async def test_within_a_stream_it_is_the_last_event(asking, engine):
    engine.chats = [ChatDelta("Hel"), DeadlineExceeded("Too late.")]
    async with asking() as client:
        body = BODIES["/v1/chat/completions"] | {"stream": True}
        response = await client.post("/v1/chat/completions", json=body)
    *_, last, done = [line for line in response.text.splitlines() if line]
    assert json.loads(last.removeprefix("data: "))["error"]["message"] == "Too late."
    assert done == "data: [DONE]"


async def test_time_that_passes_before_the_engine_is_asked_counts(asking, engine):
    async with asking(1e-9) as client:
        response = await client.post("/v1/completions", json=BODIES["/v1/completions"])
    assert response.status_code == 504
    assert not engine.requests
