"""The model's loading, its failure and its change, as the client sees them."""

import asyncio

import pytest

from engine.errors import EngineUnavailable, ModelFileError
from engine.types import EngineStatus

PROGRESS = {"window": {"workDoneProgress": True}}


class Loader:
    """An engine factory whose every load waits for its own gate, or fails."""

    def __init__(self):
        self.loads = []
        self.engines = []

    async def __call__(self, settings):
        outcome = asyncio.get_running_loop().create_future()
        self.loads.append((settings, outcome))
        engine = await outcome
        self.engines.append(engine)
        return engine


class Engine:
    """States one after the other, the last one for ever."""

    def __init__(self, *states):
        self.states = [*states] or [EngineStatus("ready")]
        self.closed = False

    async def status(self):
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    async def close(self):
        self.closed = True


@pytest.fixture
def loader():
    return Loader()


@pytest.fixture
async def loading(make_session, loader):
    """A session whose model is still being loaded."""

    async def start(capabilities=None, options=None):
        session = make_session(loader)
        await session.initialize(capabilities, options)
        session.notify("initialized", {})
        await session.until(lambda: loader.loads)
        return session

    return start


def last_status(session):
    return session.notices("didChangeStatus")[-1]


async def test_while_loading_automatic_requests_get_nothing_at_once(loading):
    session = await loading()
    uri = session.open("x = ")
    assert await session.items(uri, 0, 4) == []
    status = last_status(session)
    assert status["busy"] is True
    assert "loading" in status["message"]
    explained = await session.result("workspace/executeCommand", {"command": "hearth.explain"})
    assert "still loading" in explained["text"]


async def test_an_invoked_request_waits_for_the_model(loading, loader):
    session = await loading()
    uri = session.open("x = ")
    message_id = session.complete(uri, 0, 4, invoked=True)
    session.insert(uri, 2, 0, 0, "")
    loader.loads[0][1].set_result(Engine())
    assert (await session.response(message_id))["result"]["items"]
    assert last_status(session) == {"busy": False, "message": "", "kind": "Normal"}


async def test_a_failed_load_is_told_once_and_requests_get_nothing(loading, loader):
    session = await loading()
    uri = session.open("x = ")
    waiting = session.complete(uri, 0, 4, invoked=True)
    loader.loads[0][1].set_exception(ModelFileError("The file is cut short.", action="Pull it again."))
    assert (await session.response(waiting))["result"]["items"] == []
    assert await session.items(uri, 0, 4) == []
    (shown,) = session.notices("window/showMessage")
    assert shown["message"] == "The file is cut short. Pull it again."
    assert last_status(session)["kind"] == "Error"
    state = await session.result("workspace/executeCommand", {"command": "hearth.status"})
    assert "cut short" in state["text"]


async def test_a_fault_while_loading_shows_no_internals(loading, loader):
    session = await loading()
    loader.loads[0][1].set_exception(ValueError("/secret/path"))
    await session.until(lambda: session.notices("window/showMessage"))
    assert "secret" not in str(session.sent)
    assert isinstance(session.server.engine.error, EngineUnavailable)


async def test_a_new_model_setting_stops_the_old_load_and_closes_the_old_engine(loading, loader):
    session = await loading(options={"model": "one"})
    session.notify("workspace/didChangeConfiguration", {"settings": {"model": "two"}})
    await session.until(lambda: len(loader.loads) == 2)
    assert loader.loads[0][1].cancelled()
    loader.loads[1][1].set_result(Engine())
    await session.until(lambda: session.server.engine.policy)
    session.notify("workspace/didChangeConfiguration", {"settings": {"model": "three"}})
    await session.until(lambda: len(loader.loads) == 3)
    assert loader.engines[0].closed
    assert [settings.model for settings, _ in loader.loads] == ["one", "two", "three"]


async def test_other_settings_load_nothing_anew(loading, loader):
    session = await loading()
    loader.loads[0][1].set_result(Engine())
    await session.until(lambda: session.server.engine.policy)
    session.notify("workspace/didChangeConfiguration", {"settings": {"mode": "single"}})
    await session.result("workspace/executeCommand", {"command": "hearth.explain"})
    assert len(loader.loads) == 1


async def test_shutdown_while_loading_stops_it(loading, loader):
    session = await loading()
    assert await session.result("shutdown") is None
    assert loader.loads[0][1].cancelled()


async def test_progress_is_shown_from_the_clients_consent_to_the_end(loading, loader):
    session = await loading(PROGRESS)
    create = await session.until(
        lambda: [m for m in session.sent if m.get("method") == "window/workDoneProgress/create"]
    )
    assert session.notices("$/progress") == []
    session.reply(create[0], None)
    await session.until(lambda: session.notices("$/progress"))
    loader.loads[0][1].set_result(Engine())
    await session.until(lambda: len(session.notices("$/progress")) == 2)
    begin, end = session.notices("$/progress")
    assert begin["token"] == end["token"] == create[0]["params"]["token"]
    assert (begin["value"]["kind"], end["value"]["kind"]) == ("begin", "end")


async def test_progress_agreed_to_after_the_end_shows_nothing(loading, loader):
    session = await loading(PROGRESS)
    (create,) = await session.until(
        lambda: [m for m in session.sent if m.get("method") == "window/workDoneProgress/create"]
    )
    loader.loads[0][1].set_result(Engine())
    await session.until(lambda: session.server.engine.policy)
    session.reply(create, None)
    await session.result("workspace/executeCommand", {"command": "hearth.explain"})
    assert session.notices("$/progress") == []


async def test_clients_without_progress_are_not_asked(loading):
    session = await loading()
    assert [m for m in session.sent if "method" in m and "id" in m] == []


async def test_an_engine_that_loads_by_itself_is_waited_for(loading, loader, monkeypatch):
    monkeypatch.setattr("lsp_server.engine_host.POLL_SECONDS", 0)
    session = await loading()
    uri = session.open("x = ")
    waiting = session.complete(uri, 0, 4, invoked=True)
    loader.loads[0][1].set_result(Engine(*[EngineStatus("loading")] * 5, EngineStatus("ready")))
    assert (await session.response(waiting))["result"]["items"]


async def test_an_engine_that_fails_by_itself_is_told(loading, loader, monkeypatch):
    monkeypatch.setattr("lsp_server.engine_host.POLL_SECONDS", 0)
    session = await loading()
    failed = EngineStatus("failed", message="The weights are cut short.")
    loader.loads[0][1].set_result(Engine(EngineStatus("loading"), failed))
    await session.until(lambda: session.notices("window/showMessage"))
    assert session.notices("window/showMessage")[0]["message"] == "The weights are cut short."
    assert await session.result("shutdown") is None
    assert loader.engines[0].closed


async def test_a_load_that_is_overtaken_closes_its_engine(loading, loader):
    session = await loading()
    loader.loads[0][1].set_result(Engine(EngineStatus("loading")))
    await session.until(lambda: session.server.engine.engine)
    session.notify("workspace/didChangeConfiguration", {"settings": {"model": "two"}})
    await session.until(lambda: len(loader.loads) == 2)
    assert loader.engines[0].closed


async def test_the_focused_place_is_made_warm_once_the_model_is_loaded(loading, loader):
    session = await loading()
    uri = session.open("x = ")
    place = {"line": 0, "character": 4}
    session.notify("textDocument/didFocus", {"textDocument": {"uri": uri}, "position": place})
    loader.loads[0][1].set_result(Engine())
    await session.until(lambda: session.policy and session.policy.warmed)
    assert session.policy.warmed[0].offset == 4
