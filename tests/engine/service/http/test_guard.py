"""Who is let in: hosts, origins, tokens, content types."""

import httpx2
import pytest

from engine.service.http.app import build_app

TOKEN = "secret"
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "x"}]}


@pytest.fixture
def client(engine):
    def make(**options):
        transport = httpx2.ASGITransport(build_app(engine, **{"token": None, **options}))
        return httpx2.AsyncClient(transport=transport, base_url="http://localhost:8080")

    return make


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:1234", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:8080"]
)
async def test_loopback_names_are_let_in(client, host):
    async with client() as asking:
        assert (await asking.get("/health", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "0.0.0.0",  # noqa: S104 - a Host header
        "192.168.1.2",
        "[::1",
        "[::2]",
        "localhost:80:80",
        "localhost:a",
        "127.1",
        "",
    ],
)
async def test_another_host_is_refused(client, engine, host):
    async with client() as asking:
        response = await asking.post("/v1/chat/completions", json=CHAT, headers={"host": host})
    assert response.status_code == 403
    assert "Host" in response.json()["error"]["message"]
    assert not engine.requests


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("box.lan:8080", 200),
        ("Box.LAN:8080", 200),
        ("box.lan", 403),
        ("box.lan:80", 403),
        ("any.lan", 200),
        ("any.lan:80", 200),
        ("any.lan.evil.example", 403),
        ("evil.example:any.lan", 403),
    ],
)
async def test_a_host_may_be_allowed_with_its_port_or_with_any(client, host, status):
    async with client(hosts=frozenset({"box.lan:8080", "any.lan"})) as asking:
        assert (await asking.get("/health", headers={"host": host})).status_code == status


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost", "null"])
async def test_a_page_is_refused(client, engine, origin):
    async with client() as asking:
        response = await asking.post("/v1/chat/completions", json=CHAT, headers={"origin": origin})
        preflight = await asking.options("/v1/chat/completions", headers={"origin": origin})
    assert response.status_code == preflight.status_code == 403
    assert not any(name.startswith("access-control") for name in [*response.headers, *preflight.headers])
    assert not engine.requests


PAGE = "http://localhost:3000"


async def test_an_allowed_page_may_ask_and_read(client):
    async with client(origins=frozenset({PAGE}), token=TOKEN) as asking:
        asked = {"access-control-request-method": "POST", "access-control-request-headers": "x-api-key,x-sdk"}
        preflight = await asking.options("/v1/chat/completions", headers={"origin": PAGE, **asked})
        response = await asking.post(
            "/v1/chat/completions", json=CHAT, headers={"origin": PAGE, "x-api-key": TOKEN}
        )
        refused = await asking.post("/v1/chat/completions", json=CHAT, headers={"origin": PAGE})
    assert (preflight.status_code, response.status_code, refused.status_code) == (200, 200, 401)
    assert preflight.headers["access-control-allow-headers"] == "x-api-key,x-sdk"
    assert preflight.headers["access-control-allow-methods"] == "GET, POST"
    for answer in (preflight, response, refused):
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "Origin" in answer.headers["vary"]
        assert "access-control-allow-credentials" not in answer.headers
        assert "*" not in "".join(answer.headers.values())


@pytest.mark.parametrize("origin", ["http://localhost:3001", "http://localhost", "https://localhost:3000"])
async def test_another_page_than_the_allowed_one_is_refused(client, engine, origin):
    async with client(origins=frozenset({PAGE})) as asking:
        headers = {"origin": origin, "access-control-request-method": "POST"}
        preflight = await asking.options("/v1/chat/completions", headers=headers)
        response = await asking.post("/v1/chat/completions", json=CHAT, headers=headers)
    assert preflight.status_code == response.status_code == 403
    assert not any(name.startswith("access-control") for name in [*preflight.headers, *response.headers])
    assert not engine.requests


async def test_a_request_without_an_origin_gets_no_cors_headers(client):
    async with client(origins=frozenset({PAGE})) as asking:
        response = await asking.get("/v1/models")
    assert response.status_code == 200
    assert not any(name.startswith("access-control") for name in response.headers)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer secreT"},
        {"authorization": "Bearer"},
        {"authorization": "Basic secret"},
        {"authorization": "secret"},
        {"x-api-key": ""},
        {"x-api-key": "secret\xff"},
    ],
)
@pytest.mark.parametrize(
    "path", ["/v1/models", "/metrics", "/props", "/openapi.json", "/hearth/v1/status", "/no"]
)
async def test_a_token_is_needed(client, path, headers):
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    async with client(token=TOKEN) as asking:
        response = await asking.get(path, headers=raw)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "headers",
    [{"authorization": "Bearer secret"}, {"authorization": "bearer  secret"}, {"x-api-key": "secret"}],
)
async def test_the_token_lets_in(client, headers):
    async with client(token=TOKEN) as asking:
        assert (await asking.get("/v1/models", headers=headers)).status_code == 200


async def test_health_needs_no_token_and_tells_nothing(client, engine):
    engine.state = "failed"
    async with client(token=TOKEN) as asking:
        response = await asking.get("/health")
    assert response.status_code == 503
    assert "secret" not in response.text


async def test_the_api_key_is_asked_for_in_anthropics_shape(client):
    async with client(token=TOKEN) as asking:
        response = await asking.post("/v1/messages", json={})
    assert response.json()["error"]["type"] == "authentication_error"


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", None],
)
async def test_a_post_must_say_that_it_is_json(client, engine, kind):
    async with client() as asking:
        headers = {"content-type": kind} if kind is not None else {}
        response = await asking.post("/v1/chat/completions", content=b"{}", headers=headers)
    assert response.status_code == 415
    assert not engine.requests


async def test_json_with_a_charset_is_json(client):
    async with client() as asking:
        response = await asking.post(
            "/tokenize",
            content=b'{"content": "a"}',
            headers={"content-type": "Application/JSON; charset=utf-8"},
        )
    assert response.status_code == 200


async def test_unknown_routes_are_told_in_their_apis_shape(client):
    async with client() as asking:
        openai = await asking.get("/v1/nothing")
        anthropic = await asking.get("/v1/messages")
        ours = await asking.get("/hearth/v1/nothing")
    assert (openai.status_code, openai.json()["error"]["type"]) == (404, "not_found_error")
    assert (anthropic.status_code, anthropic.json()["type"]) == (405, "error")
    assert ours.json()["error"]["kind"] == "request"
