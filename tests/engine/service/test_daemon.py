"""The daemon as a process: one for each user, from its start to its end, however it ends."""

import asyncio
import json
import signal
import socket
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.client.http import ConnectionLost, exchange
from engine.service.logs import MAX_BYTES
from engine.service.protocol import HELLO, LOAD, PROTOCOL, STATE

CANARY = "canary-in-the-source"


def infill(prefix, **more):
    return json.dumps({"prefix": prefix, "suffix": "", **more}).encode()


async def words(daemon_home, prefix, query=""):
    answer = await daemon_home.ask("POST", "/hearth/v1/infill" + query, infill(prefix))
    return [json.loads(line) for line in answer.splitlines()]


def test_it_serves_on_a_private_socket_and_ends_when_told(daemon_home):
    daemon = daemon_home.start()
    assert daemon.report == {"ready": True}
    places = daemon_home.places
    assert stat.S_IMODE(places.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(places.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(places.state.stat().st_mode) == 0o600
    assert [line["text"] for line in asyncio.run(words(daemon_home, "a b"))] == ["a", "b", ""]
    written = json.loads(places.state.read_text())
    state = daemon_home.state()
    assert written.items() <= state.items()
    assert (state["pid"], state["protocol"], state["tcp_port"]) == (daemon.pid, PROTOCOL, None)
    assert state["engine"]["state"] == "ready"
    assert state["current_model"] == state["model"]
    assert state["requests"] == {"requests": 1, "running": 0, "waiting": 0, "loads": 1}
    assert state["memory_bytes"] > 1_000_000
    daemon_home.stop()
    assert daemon.wait() == 0
    assert not places.socket.exists()
    assert not places.state.exists()


def test_it_can_be_told_to_end_while_it_loads(daemon_home):
    daemon = daemon_home.start("--model", "slow")

    async def scenario():
        asked = asyncio.create_task(words(daemon_home, "a"))
        # The load at the start waits too.
        while json.loads(await daemon_home.ask("GET", STATE))["requests"]["waiting"] < 2:
            await asyncio.sleep(0)
        daemon.send_signal(signal.SIGTERM)
        return await asked

    (answer,) = asyncio.run(scenario())
    assert answer["error"]["what"] == "The engine is shutting down."
    assert daemon.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_exit_code_0(daemon_home, number):
    daemon = daemon_home.start()
    assert asyncio.run(words(daemon_home, "a"))
    daemon.send_signal(number)
    assert daemon.wait() == 0


def test_of_eight_that_race_one_wins_and_the_others_are_content(daemon_home):
    with ThreadPoolExecutor(8) as pool:
        daemons = list(pool.map(lambda _: daemon_home.start(), range(8)))
    assert [daemon.report for daemon in daemons] == [{"ready": True}] * 8
    winner = daemon_home.state()["pid"]
    losers = [daemon for daemon in daemons if daemon.pid != winner]
    assert len(losers) == 7
    assert [daemon.wait() for daemon in losers] == [0] * 7
    assert daemon_home.pids() == [winner]
    assert len({daemon_home.state()["pid"] for _ in range(3)}) == 1


def test_one_that_comes_while_the_other_drains_waits_and_takes_over(daemon_home):
    async def scenario():
        async with exchange(
            daemon_home.places.socket, "POST", "/hearth/v1/infill", body=infill("#wait")
        ) as response:
            lines = response.lines()
            await anext(lines)
            first.send_signal(signal.SIGTERM)
            second = asyncio.create_task(asyncio.to_thread(daemon_home.start))
            await asyncio.to_thread(_refused, daemon_home.places.socket)
            assert not second.done()
        return await second

    first = daemon_home.start()
    second = asyncio.run(scenario())
    assert first.wait() == 0
    assert second.report == {"ready": True}
    assert daemon_home.state()["pid"] == second.pid


def _refused(path):
    """Return once nobody listens any more."""
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
                probe.settimeout(30)
                if not probe.recv(1):  # closed by the daemon, as soon as it drains
                    continue
            except (ConnectionError, FileNotFoundError):
                return


def test_draining_lets_a_running_request_finish(daemon_home):
    (daemon_home.home / "config").mkdir(parents=True)
    (daemon_home.home / "config/service.toml").write_text("drain_seconds = 600\n")

    async def scenario():
        # An answer far larger than what the pipes between hold: it cannot end before we read on.
        async with exchange(
            daemon_home.places.socket, "POST", "/hearth/v1/infill", body=infill("word " * 30_000)
        ) as response:
            lines = response.lines()
            await anext(lines)
            daemon.send_signal(signal.SIGTERM)
            await asyncio.to_thread(_refused, daemon_home.places.socket)
            assert daemon.poll() is None
            return [json.loads(line) async for line in lines]

    daemon = daemon_home.start()
    rest = asyncio.run(scenario())
    assert len(rest) == 30_000
    assert rest[-1]["finish"] == "stop"
    assert daemon.wait() == 0


def test_what_does_not_finish_in_time_is_cancelled(daemon_home):
    (daemon_home.home / "config").mkdir(parents=True)
    (daemon_home.home / "config/service.toml").write_text("drain_seconds = 0\n")

    async def scenario():
        async with exchange(
            daemon_home.places.socket, "POST", "/hearth/v1/infill", body=infill("#wait")
        ) as response:
            lines = response.lines()
            await anext(lines)
            daemon.send_signal(signal.SIGTERM)
            with pytest.raises(ConnectionLost):
                await anext(lines)

    daemon = daemon_home.start()
    asyncio.run(scenario())
    assert daemon.wait() == 0


def test_a_second_signal_does_not_wait(daemon_home):
    (daemon_home.home / "config").mkdir(parents=True)
    (daemon_home.home / "config/service.toml").write_text("drain_seconds = 3600\n")

    async def scenario():
        async with exchange(
            daemon_home.places.socket, "POST", "/hearth/v1/infill", body=infill("#wait")
        ) as response:
            await anext(response.lines())
            daemon.send_signal(signal.SIGINT)
            await asyncio.to_thread(_refused, daemon_home.places.socket)
            daemon.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(daemon.wait) == 0

    daemon = daemon_home.start()
    asyncio.run(scenario())


@pytest.mark.parametrize("when", ["idle", "loading", "answering"])
def test_after_kill_9_the_next_one_starts_at_once(daemon_home, when):
    async def answering():
        async with exchange(
            daemon_home.places.socket, "POST", "/hearth/v1/infill", body=infill("#wait")
        ) as response:
            await anext(response.lines())
            daemon.kill()
            with pytest.raises(ConnectionLost):
                await anext(response.lines())

    daemon = daemon_home.start(*(["--model", "slow"] if when == "loading" else []))
    if when == "loading":
        assert daemon_home.state()["engine"]["state"] == "loading"
    if when == "answering":
        asyncio.run(answering())
    daemon_home.kill(daemon.pid)
    assert daemon_home.places.socket.exists()
    assert daemon_home.places.state.exists()
    second = daemon_home.start()
    assert second.report == {"ready": True}
    assert daemon_home.state()["pid"] == second.pid
    assert [line["text"] for line in asyncio.run(words(daemon_home, "a"))] == ["a", ""]


@pytest.mark.parametrize("left", ["a file", "a link", "garbage in the state file"])
def test_what_lies_in_the_way_is_replaced(daemon_home, left, tmp_path):
    places = daemon_home.places
    (tmp_path / "precious").write_text("precious")
    if left == "a file":
        places.socket.write_text("x")
    elif left == "a link":
        places.socket.symlink_to(tmp_path / "precious")
    else:
        places.state.write_text('{"pid": 1, ')
    daemon_home.start()
    assert daemon_home.state()["engine"]
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_deleted_lock_file_does_not_make_two(daemon_home):
    daemon = daemon_home.start()
    daemon_home.places.lock.unlink()
    second = daemon_home.start()
    assert second.report == {"ready": True}
    assert second.wait() == 0
    assert daemon_home.state()["pid"] == daemon.pid


@pytest.mark.parametrize("replaced", [False, True])
def test_a_deleted_socket_ends_it_so_that_another_can_start(daemon_home, replaced):
    daemon = daemon_home.start()
    daemon_home.places.socket.rename(daemon_home.places.socket.with_name("elsewhere"))
    if replaced:
        daemon_home.places.socket.touch()
    assert daemon.wait() == 0
    assert daemon_home.start().report == {"ready": True}
    assert [line["text"] for line in asyncio.run(words(daemon_home, "a b"))] == ["a", "b", ""]


@pytest.mark.parametrize("file", ["lock", "starting"])
def test_a_lock_that_cannot_be_opened_is_told(daemon_home, tmp_path, file):
    getattr(daemon_home.places, file).symlink_to(tmp_path / "elsewhere")
    daemon = daemon_home.start()
    assert daemon.report["error"]["kind"] == "settings"
    assert "cannot write to its folder" in daemon.report["error"]["what"]
    assert daemon.wait() == 1


def test_a_folder_open_to_others_is_refused_in_words(daemon_home):
    folder = daemon_home.places.folder
    folder.chmod(0o777)
    daemon = daemon_home.start()
    folder.chmod(0o700)
    assert daemon.report["error"]["action"] == f"Run: chmod 700 '{folder}'"
    assert daemon.wait() == 1
    assert b"settings: Other users may enter" in daemon.stderr.read()


def test_a_bad_setting_is_told_with_its_file(daemon_home):
    (daemon_home.home / "config").mkdir(parents=True)
    (daemon_home.home / "config/service.toml").write_text("idle_minutes = -1\n")
    daemon = daemon_home.start()
    assert "idle_minutes" in daemon.report["error"]["what"]
    assert "service.toml" in daemon.report["error"]["what"]
    assert daemon.wait() == 1


def test_the_settings_reach_what_they_are_about(daemon_home):
    (daemon_home.home / "config").mkdir(parents=True)
    (daemon_home.home / "config/service.toml").write_text(
        """
[http]
allowed_origins = ["http://page"]
body_mib = 1
[sampling]
temperature = 0.25
top_k = 7
"""
    )
    daemon_home.start("--model", "good")

    async def scenario():
        async def post(body, **headers):
            pairs = list(headers.items())
            async with exchange(
                daemon_home.places.socket, "POST", "/v1/completions", body=body, headers=pairs
            ) as response:
                return response.status, await response.body()

        asked = {"model": "good", "prompt": "#sampling", "top_k": 3}
        status, answer = await post(json.dumps(asked).encode(), origin="http://page")
        assert status == 200
        assert "temperature=0.25, top_k=3, top_p=1.0" in json.loads(answer)["choices"][0]["text"]
        # The head alone: an answer to it may be lost when the rest of a body is not read.
        reader, writer = await asyncio.open_unix_connection(daemon_home.places.socket)
        head = ("POST /v1/completions HTTP/1.1", "host: localhost", "content-type: application/json")
        writer.write("\r\n".join((*head, f"content-length: {(1 << 20) + 1}", "", "")).encode())
        assert b" 413 " in await reader.readline()
        writer.close()
        assert (await post(json.dumps(asked).encode(), origin="http://other"))[0] == 403

    asyncio.run(scenario())


def test_a_long_home_works(daemon_home, monkeypatch, tmp_path):
    home = tmp_path / ("d" * 120)
    monkeypatch.setenv("HEARTH_HOME", str(home))
    daemon_home.home = home
    daemon_home.start()
    assert len(daemon_home.state()["socket"]) < len(str(home))


def test_tcp_is_loopback_only_and_a_taken_port_is_told(daemon_home):
    (daemon_home.home / "config").mkdir(parents=True)
    file = daemon_home.home / "config/service.toml"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        file.write_text(f"tcp_port = {taken.getsockname()[1]}\n")
        daemon = daemon_home.start()
        assert "another program listens there" in daemon.report["error"]["what"]
        assert daemon.wait() == 1
    file.write_text("tcp_port = 0\n")
    daemon_home.start()
    state = daemon_home.state()
    token = daemon_home.home / "state/token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    shown = token.read_text().strip()
    assert len(shown) >= 40

    def status_of(path, *headers):
        return int(_get_by_tcp(state["tcp_port"], path, *headers).split()[1])

    assert status_of("/v1/models") == status_of("/v1/models", "authorization: Bearer wrong") == 401
    assert status_of("/v1/models", f"authorization: Bearer {shown}") == 200
    # The routes that stop and load are the socket's alone.
    assert status_of(HELLO, f"authorization: Bearer {shown}") == 404


def _get_by_tcp(port, path, *headers):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        lines = (f"GET {path} HTTP/1.1", "host: localhost", "connection: close", *headers, "", "")
        connection.sendall("\r\n".join(lines).encode())
        with connection.makefile("rb") as answer:
            return answer.read().decode()


def test_what_came_over_the_socket_and_over_tcp_is_counted_together(daemon_home):
    (daemon_home.home / "config").mkdir(parents=True)
    (daemon_home.home / "config/service.toml").write_text("tcp_port = 0\n")
    daemon_home.start()
    shown = f"authorization: Bearer {(daemon_home.home / 'state/token').read_text().strip()}"
    port = daemon_home.state()["tcp_port"]
    asyncio.run(words(daemon_home, "a b"))
    _get_by_tcp(port, "/v1/models", shown)
    by_socket = asyncio.run(daemon_home.ask("GET", "/metrics")).decode()
    by_tcp = _get_by_tcp(port, "/metrics", shown)
    for told in (by_socket, by_tcp):
        assert 'hearth_http_requests_total{route="/hearth/v1/infill",status="200"} 1.0' in told
        assert 'hearth_http_requests_total{route="/v1/models",status="200"} 1.0' in told
        assert "hearth_generated_tokens_total 2.0" in told


def test_a_log_that_has_grown_is_rotated_and_stays_private(daemon_home):
    folder = daemon_home.home / "logs"
    folder.mkdir(parents=True)
    (folder / "daemon.log").write_bytes(b"x" * MAX_BYTES)
    (folder / "daemon.log").chmod(0o600)
    daemon = daemon_home.start()
    daemon_home.stop()
    assert daemon.wait() == 0
    assert (folder / "daemon.log.1").read_bytes() == b"x" * MAX_BYTES
    assert "the daemon runs" in (folder / "daemon.log").read_text()
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_another_protocol_is_refused_and_the_greeting_is_not(daemon_home):
    daemon = daemon_home.start()

    async def scenario():
        greeting = json.loads(await daemon_home.ask("GET", HELLO, hearth_protocol="99"))
        assert greeting["protocol"] == PROTOCOL
        assert greeting["pid"] == daemon.pid
        async with exchange(
            daemon_home.places.socket,
            "GET",
            "/hearth/v1/status",
            headers=[("hearth-protocol", str(PROTOCOL + 1))],
        ) as response:
            assert response.status == 409
            assert json.loads(await response.body())["error"]["kind"] == "engine-unavailable"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"model": 3}', b'{"model": "m", "threads": -1}', b"\xff"]
)
def test_a_bad_wish_is_told(daemon_home, body):
    daemon_home.start()

    async def scenario():
        async with exchange(daemon_home.places.socket, "POST", LOAD, body=body) as response:
            return response.status, json.loads(await response.body())["error"]["kind"]

    assert asyncio.run(scenario()) == (400, "request")


def test_a_model_that_does_not_load_ends_nothing(daemon_home):
    daemon_home.start("--model", "bad")
    (answer,) = asyncio.run(words(daemon_home, "a"))
    assert answer["error"] == {
        "kind": "engine-unavailable",
        "what": "The model bad does not load.",
        "meaning": "",
        "action": "Choose another.",
    }
    assert daemon_home.state()["engine"]["state"] == "failed"
    assert asyncio.run(words(daemon_home, "a", "?model=good"))[0]["text"] == "a"


def test_nothing_of_a_request_reaches_the_logs(daemon_home):
    (daemon_home.home / "config").mkdir(parents=True)
    (daemon_home.home / "config/service.toml").write_text('log_level = "debug"\n')
    daemon = daemon_home.start("--model", "bad")

    async def scenario():
        for prefix in ("", "#fail", "#crash"):
            try:
                await words(daemon_home, f"{prefix} {CANARY}", "?model=good")
            except ConnectionLost:
                assert prefix == "#crash"
        await daemon_home.ask("POST", f"/hearth/v1/{CANARY}?{CANARY}", CANARY.encode(), x_canary=CANARY)
        await daemon_home.ask("POST", LOAD, json.dumps({"model": CANARY}).encode())
        _, writer = await asyncio.open_unix_connection(daemon_home.places.socket)
        writer.write(f"{CANARY}\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        chat = {"messages": [{"role": "user", "content": CANARY}], "tools": [{"name": CANARY}]}
        await daemon_home.ask("POST", "/hearth/v1/chat", json.dumps(chat).encode())
        function = {"name": "f", "parameters": {"type": "object", "title": CANARY}}
        called = {"id": "1", "type": "function", "function": {"name": "f", "arguments": CANARY}}
        openai = {
            "model": "good",
            "messages": [
                {"role": "user", "content": CANARY},
                {"role": "assistant", "tool_calls": [called]},
                {"role": "tool", "tool_call_id": "1", "content": CANARY},
            ],
            "tools": [{"type": "function", "function": function}],
        }
        for body in (openai, {**openai, CANARY: CANARY}, {**openai, "model": CANARY}):
            await daemon_home.ask("POST", "/v1/chat/completions", json.dumps(body).encode())
        await daemon_home.ask("GET", STATE)

    asyncio.run(scenario())
    daemon.terminate()
    assert daemon.wait() == 0
    log = daemon_home.log()
    assert "ValueError" in log  # that something failed is there, and where
    assert "stand_in.py" in log
    assert CANARY not in log + daemon.stderr.read().decode()


def test_it_holds_no_file_of_whoever_started_it(daemon_home):
    daemon = daemon_home.start()
    assert daemon_home.state()
    command = subprocess.run(
        ["ls", "-l", f"/proc/{daemon.pid}/fd"], capture_output=True, text=True, check=True
    )
    pipes = [line for line in command.stdout.splitlines() if "pipe:" in line and " 2 -> " not in line]
    assert pipes == []
