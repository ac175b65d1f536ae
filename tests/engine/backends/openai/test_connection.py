"""The connection to a remote over a real one: tries, health, refusals, hostile answers, cancellation."""

import asyncio
import logging
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from engine.backends.openai import connection
from engine.backends.openai.circuit import FAILURES_TO_OPEN, Health, backoff
from engine.backends.openai.failures import Refused, Unreachable
from engine.errors import (
    DeadlineExceeded,
    EngineBusy,
    EngineUnavailable,
    ModelNotFound,
    PromptTooLong,
    RequestError,
    SettingsError,
)
from engine.types import ChatMessage, ChatRequest

ASK = ChatRequest((ChatMessage("user", "canary"),))
CHATS = "/v1/chat/completions"


@pytest.fixture
def ask(gather):
    async def ask(remote):
        return "".join(delta.text for delta in await gather(remote.chat(ASK, "near")))

    return ask


def good(fake):
    return fake.stream(fake.chunk(delta={"content": "good"}), fake.chunk(delta={}, finish_reason="stop"))


def bad(fake, status, message="no", **headers):
    return fake.value({"error": {"message": message, "code": status}}, status, **headers)


@pytest.mark.parametrize("status", [502, 503, 504, 429])
async def test_what_passes_is_tried_again_with_growing_pauses(fake_remote, make_remote, ask, pauses, status):
    fake_remote.on(CHATS, bad(fake_remote, status), bad(fake_remote, status), good(fake_remote))
    assert await ask(make_remote(retries=2)) == "good"
    assert len(fake_remote.asked(CHATS)) == 3
    first, second = pauses.seconds
    assert 0.1 <= first <= 1.0
    assert second <= 2.0


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RequestError),
        (422, RequestError),
        (413, RequestError),
        (401, Refused),
        (403, Refused),
        (307, Refused),
        (404, EngineUnavailable),
        (408, DeadlineExceeded),
        (500, EngineUnavailable),
        (501, EngineUnavailable),
    ],
)
async def test_what_does_not_pass_is_told_at_once(fake_remote, make_remote, ask, status, kind):
    fake_remote.on(CHATS, bad(fake_remote, status, "the reason", location="http://127.0.0.1:1/elsewhere"))
    with pytest.raises(kind) as caught:
        await ask(make_remote())
    assert not isinstance(caught.value, Unreachable)
    assert "team" in caught.value.what
    assert caught.value.action or isinstance(caught.value, RequestError)
    assert len(fake_remote.asked(CHATS)) == 1


async def test_a_server_that_stays_busy_is_told_with_its_patience(fake_remote, make_remote, ask, pauses):
    fake_remote.on(CHATS, bad(fake_remote, 429, retry_after="3"))
    with pytest.raises(EngineBusy) as caught:
        await ask(make_remote(retries=1))
    assert caught.value.retry_after == 3
    assert pauses.seconds == [3]


async def test_too_much_patience_is_left_to_who_asked(fake_remote, make_remote, ask, pauses):
    fake_remote.on(CHATS, bad(fake_remote, 429, retry_after="600"))
    with pytest.raises(EngineBusy) as caught:
        await ask(make_remote())
    assert caught.value.retry_after == 600
    assert pauses.seconds == []


async def test_patience_may_be_told_as_a_date(fake_remote, make_remote, ask):
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    fake_remote.on(CHATS, bad(fake_remote, 429, retry_after=date))
    with pytest.raises(EngineBusy) as caught:
        await ask(make_remote())
    assert 3000 < caught.value.retry_after <= 3600


async def test_nonsense_in_retry_after_is_no_number(fake_remote, make_remote, ask):
    fake_remote.on(CHATS, bad(fake_remote, 429, retry_after="-1e400"), good(fake_remote))
    assert await ask(make_remote()) == "good"


async def test_a_redirect_is_not_followed(fake_remote, make_remote, ask):
    fake_remote.on("/elsewhere", good(fake_remote))
    fake_remote.on(CHATS, bad(fake_remote, 307, location=f"{fake_remote.url}/elsewhere"))
    with pytest.raises(Refused, match="redirect"):
        await ask(make_remote())
    assert fake_remote.asked("/elsewhere") == []


async def test_the_key_is_sent_and_never_shown(fake_remote, make_remote, ask, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("TEAM_KEY", "sk-secret")
    remote = make_remote(key="env:TEAM_KEY")
    fake_remote.on(CHATS, good(fake_remote), bad(fake_remote, 401))
    assert await ask(remote) == "good"
    assert fake_remote.asked(CHATS)[0].headers["authorization"] == "Bearer sk-secret"
    with pytest.raises(Refused, match="refuses the key") as caught:
        await ask(remote)
    assert remote.connection.health is Health.REFUSED
    assert remote.status("near").state == "failed"
    shown = str(caught.value) + repr(remote.settings) + str(remote.connection.reasons)
    assert "sk-secret" not in shown + caplog.text
    assert "canary" not in caplog.text


async def test_without_its_key_nothing_is_sent(fake_remote, make_remote, ask, monkeypatch):
    monkeypatch.delenv("TEAM_KEY", raising=False)
    remote = make_remote(key="env:TEAM_KEY")
    with pytest.raises(SettingsError, match="env:TEAM_KEY is empty"):
        await ask(remote)
    await remote.connection.look()
    assert remote.connection.health is Health.REFUSED
    assert fake_remote.requests == []
    monkeypatch.setenv("TEAM_KEY", "sk")
    assert await ask(remote) == "Hello"


async def test_neither_proxies_nor_netrc_are_used(fake_remote, make_remote, ask, monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert await ask(make_remote()) == "Hello"
    assert "authorization" not in fake_remote.requests[0].headers


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ([b"data: " + b"x" * (1 << 16)] * 40, "larger than"),
        ([b"x" * (1 << 16)] * 40, "larger than"),
        ([b"data: {}\n\n", b"data: nonsense\n\n"], "choices"),
        ([b"<html>\n"], "not a server-sent event"),
        ([b"data: \xff\n\n"], "UTF-8"),
    ],
)
async def test_hostile_streams_end_in_words(fake_remote, make_remote, ask, pieces, told):
    fake_remote.on(CHATS, fake_remote.stream(*pieces, asyncio.Event()))
    with pytest.raises(EngineUnavailable, match=told):
        await ask(make_remote())
    await asyncio.wait_for(fake_remote.left.wait(), 60)


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"content-type": "application/json"}, "not an event stream"),
        ({"content-type": "text/event-stream", "content-encoding": "gzip"}, "compressed"),
    ],
)
async def test_what_is_no_plain_event_stream_is_refused(fake_remote, make_remote, ask, headers, told):
    reply = good(fake_remote)
    reply.headers = headers
    fake_remote.on(CHATS, reply)
    with pytest.raises(EngineUnavailable, match=told):
        await ask(make_remote())


async def test_an_endless_answer_is_ended(fake_remote, make_remote, ask, monkeypatch):
    monkeypatch.setattr(connection, "LARGEST_ANSWER", 10_000)
    fake_remote.on(CHATS, fake_remote.stream(*[b": still here\n"] * 2000, asyncio.Event()))
    with pytest.raises(EngineUnavailable, match="longer than 10000 bytes"):
        await ask(make_remote())


async def test_an_endless_error_is_read_to_a_limit(fake_remote, make_remote, ask):
    reply = bad(fake_remote, 400)
    reply.pieces = [b"x" * 65536, b"x", asyncio.Event()]
    fake_remote.on(CHATS, reply)
    with pytest.raises(RequestError):
        await ask(make_remote())
    await asyncio.wait_for(fake_remote.left.wait(), 60)


async def test_half_a_stream_is_an_error_and_is_not_asked_again(fake_remote, make_remote, gather):
    piece = fake_remote.chunk(delta={"content": "Hel"})
    for end in ([], [ConnectionError()]):
        fake_remote.requests.clear()
        fake_remote.on(CHATS, fake_remote.stream(piece, *end, done=False))
        stream = make_remote().chat(ASK, "near")
        assert (await anext(stream)).text == "Hel"
        with pytest.raises(EngineUnavailable, match="broke off") as caught:
            await gather(stream)
        assert not isinstance(caught.value, Unreachable)
        assert len(fake_remote.asked(CHATS)) == 1


async def test_a_stream_that_ends_before_it_began_is_asked_again(fake_remote, make_remote, ask):
    cut = fake_remote.stream(ConnectionError(), done=False)
    fake_remote.on(CHATS, cut, fake_remote.stream(done=False), good(fake_remote))
    assert await ask(make_remote()) == "good"
    assert len(fake_remote.asked(CHATS)) == 3


async def test_closing_our_stream_closes_the_remote_s(fake_remote, make_remote):
    fake_remote.on(CHATS, fake_remote.stream(fake_remote.chunk(delta={"content": "a"}), asyncio.Event()))
    stream = make_remote().chat(ASK, "near")
    await anext(stream)
    assert not fake_remote.left.is_set()
    await stream.aclose()
    await asyncio.wait_for(fake_remote.left.wait(), 60)


async def test_cancelling_before_the_first_piece_reaches_the_remote(fake_remote, make_remote, ask):
    fake_remote.on(CHATS, fake_remote.stream(asyncio.Event()))
    asking = asyncio.create_task(ask(make_remote()))
    await fake_remote.begun.wait()
    asking.cancel()
    await asyncio.wait({asking})
    await asyncio.wait_for(fake_remote.left.wait(), 60)


async def test_a_silent_remote_is_given_up_and_not_asked_again(fake_remote, make_remote, ask):
    fake_remote.on(CHATS, fake_remote.stream(asyncio.Event()))
    with pytest.raises(Unreachable, match=r"silent for 0\.2 s"):
        await ask(make_remote(read_seconds=0.2))
    assert len(fake_remote.asked(CHATS)) == 1


async def test_one_pool_of_connections_is_used_again(fake_remote, make_remote, ask):
    remote = make_remote()
    for _ in range(3):
        await ask(remote)
    assert len({request.headers["host"] for request in fake_remote.requests}) == 1
    assert remote.connection._client is not None
    assert len(fake_remote._server.server_state.connections) == 1


async def test_after_failures_in_a_row_it_is_left_alone_until_a_probe_answers(
    fake_remote, make_remote, ask, pauses
):
    remote = make_remote(retries=0)
    await fake_remote.stop()
    for _ in range(FAILURES_TO_OPEN):
        assert remote.connection.health is Health.UNKNOWN
        with pytest.raises(Unreachable, match="cannot be connected to"):
            await ask(remote)
    assert remote.connection.health is Health.DOWN
    assert list(remote.connection.reasons) == [fake_remote.url]
    pauses.go.clear()
    with pytest.raises(Unreachable, match="is down"):
        await ask(remote)
    await fake_remote.start()
    pauses.go.set()
    while remote.connection.health is not Health.UP:
        await asyncio.sleep(0)
    assert remote.connection.recoveries == 1
    assert remote.connection.listed == {"big": 4096}
    assert remote.status("near").context_tokens == 4096
    assert [request.path for request in fake_remote.requests] == ["/v1/models"]
    assert await ask(remote) == "Hello"


async def test_failures_that_are_not_in_a_row_do_not_open_it(fake_remote, make_remote, ask):
    remote = make_remote(retries=0)
    replies = [bad(fake_remote, 503), bad(fake_remote, 503), good(fake_remote)] * 3
    fake_remote.on(CHATS, *replies)
    for _ in range(3):
        for _ in range(2):
            with pytest.raises(Unreachable):
                await ask(remote)
        assert await ask(remote) == "good"
    assert remote.connection.health is Health.UP


async def test_the_next_server_of_a_cluster_answers_at_once(fake_remote, make_remote, ask, pauses):
    remote = make_remote(url=["http://127.0.0.1:1", fake_remote.url], retries=0)
    for _ in range(FAILURES_TO_OPEN + 1):
        assert await ask(remote) == "Hello"
    assert remote.connection.health is Health.UP
    assert list(remote.connection.reasons) == ["http://127.0.0.1:1"]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ({"error": {"message": "x", "code": "context_length_exceeded"}}, PromptTooLong),
        ({"message": "This model's maximum context length is 4096 tokens.", "code": 400}, PromptTooLong),
        ({"error": {"message": "bad field"}}, RequestError),
        ({"detail": "bad field"}, RequestError),
        ("nonsense", RequestError),
    ],
)
async def test_words_of_errors(fake_remote, make_remote, ask, reply, kind):
    fake_remote.on(CHATS, fake_remote.value(reply, 400))
    with pytest.raises(RequestError) as caught:
        await ask(make_remote())
    assert type(caught.value) is kind


async def test_words_of_errors_are_short_and_have_no_control_characters(fake_remote, make_remote, ask):
    fake_remote.on(CHATS, bad(fake_remote, 400, "\x1b[31m" + "x" * 10_000))
    with pytest.raises(RequestError) as caught:
        await ask(make_remote())
    assert len(str(caught.value)) < 700
    assert str(caught.value).isprintable()


async def test_a_model_that_the_remote_does_not_have(fake_remote, make_remote, ask):
    fake_remote.on(CHATS, bad(fake_remote, 404, "The model `big` does not exist."))
    fake_remote.on("/v1/models", fake_remote.value({"data": [{"id": "other"}]}))
    remote = make_remote()
    with pytest.raises(ModelNotFound, match="has no model big"):
        await ask(remote)
    await remote.connection.look()
    assert "it lists other" in remote.problem("near")


@pytest.mark.parametrize(
    "answer", [[], {"data": [{}, {"id": 3}]}, {"data": [{"id": "x", "max_model_len": -1}]}]
)
async def test_a_strange_list_of_models_does_no_harm(fake_remote, make_remote, answer):
    fake_remote.on("/v1/models", fake_remote.value(answer))
    remote = make_remote()
    await remote.connection.look()
    assert remote.connection.health is Health.UP
    assert remote.status("near").context_tokens == 0


async def test_a_closed_connection_asks_nothing(fake_remote, make_remote, ask):
    remote = make_remote()
    remote.connection.watch()
    await remote.close()
    with pytest.raises(EngineUnavailable, match="shutting down"):
        await ask(remote)
    assert fake_remote.asked(CHATS) == []


def test_pauses_grow_to_their_limit_and_differ():
    for attempt in range(1, 50):
        whole = min(30.0, 2.0 ** (attempt - 1))
        pauses = [backoff(attempt, first=1.0, longest=30.0) for _ in range(20)]
        assert all(whole / 2 <= seconds <= whole for seconds in pauses)
        assert len(set(pauses)) > 1


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A key and a certificate for 127.0.0.1 that nobody vouches for."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    folder = tmp_path_factory.mktemp("tls")
    key, file = folder / "key.pem", folder / "cert.pem"
    asked = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    command = ["openssl", *asked.split(), "-keyout", str(key), "-out", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    return key, file


async def test_certificates_are_verified(fake_remote, make_remote, ask, certificate, tmp_path):
    key, file = certificate
    await fake_remote.stop()
    await fake_remote.start(ssl_keyfile=str(key), ssl_certfile=str(file))
    url = fake_remote.url.replace("http:", "https:")
    with pytest.raises(Refused, match="certificate"):
        await ask(make_remote(url=url))
    assert await ask(make_remote(url=url, ca_file=str(file))) == "Hello"
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(SettingsError, match="without certificates"):
        await ask(make_remote(url=url, ca_file=str(tmp_path / "empty.pem")))
