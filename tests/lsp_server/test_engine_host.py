"""The model's loading, its failure and its change, as the client sees them."""

import asyncio

import pytest

from engine.errors import EngineUnavailable, ModelFileError
from engine.types import EngineStatus
from lsp_server.engine_host import RETRY_SECONDS

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
    """An engine with nothing inside."""

    def __init__(self):
        self.closed = False

    async def status(self):
        return EngineStatus("ready")

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


@pytest.mark.parametrize("invoked", [False, True])
async def test_a_request_waits_for_the_model(loading, loader, invoked):
    session = await loading()
    uri = session.open("x = ")
    message_id = session.complete(uri, 0, 4, invoked=invoked)
    session.insert(uri, 2, 0, 0, "")
    explained = await session.result("workspace/executeCommand", {"command": "hearth.explain"})
    assert "still loading" in explained["text"]
    assert session.responses(message_id) == []
    status = last_status(session)
    assert status["busy"] is True
    assert "loading" in status["message"]
    loader.loads[0][1].set_result(Engine())
    assert (await session.response(message_id))["result"]["items"]
    assert last_status(session) == {"busy": False, "message": "", "kind": "Normal"}


async def test_only_the_newest_request_of_a_document_waits_for_the_model(loading, loader):
    session = await loading()
    one, other = session.open("x = "), session.open("y = ", "file:///w/b.py")
    asked = []
    for version, key in enumerate("gh", 2):
        asked.append(session.complete(one, 0, 2 + version))
        session.insert(one, version, 0, 2 + version, key)
    asked += [session.complete(one, 0, 6), session.complete(other, 0, 4)]
    assert [(await session.response(older))["result"] for older in asked[:2]] == [None, None]
    loader.loads[0][1].set_result(Engine())
    for newest in asked[2:]:
        assert (await session.response(newest))["result"]["items"]
    assert [question.text for question in session.policy.questions] == ["x = gh", "y = "]
    assert all(len(session.responses(message_id)) == 1 for message_id in asked)


async def test_what_was_typed_on_while_loading_moves_the_answer_along(loading, loader):
    session = await loading()
    uri = session.open("x = ")
    message_id = session.complete(uri, 0, 4)
    session.insert(uri, 2, 0, 4, "gh")
    loader.loads[0][1].set_result(Engine())
    (item,) = (await session.response(message_id))["result"]["items"]
    assert (item["insertText"], item["range"]["end"]["character"]) == ("ghost", 6)


@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_a_request_that_nobody_wants_any_more_does_not_wait(loading, loader, how):
    session = await loading()
    uri = session.open("x = ")
    message_id = session.complete(uri, 0, 4)
    await asyncio.sleep(0)
    if how == "cancel":
        session.notify("$/cancelRequest", {"id": message_id})
        assert (await session.response(message_id))["error"]["code"] == -32800
    else:
        session.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        assert (await session.response(message_id))["result"] is None
    loader.loads[0][1].set_result(Engine())
    await session.until(lambda: session.policy)
    assert session.policy.questions == []


@pytest.mark.parametrize(
    ("settings", "items"),
    [(None, 1), ({"mode": "single"}, 1), ({"enabled": False}, 0), ({"exclude": ["*"]}, 0)],
)
async def test_a_request_waits_also_for_the_settings_and_goes_by_them(make_session, loader, settings, items):
    session = make_session(loader)
    await session.initialize({"workspace": {"configuration": True}})
    session.notify("initialized", {})
    uri = session.open("x = ")
    message_id = session.complete(uri, 0, 4)
    asked = await session.until(
        lambda: [m for m in session.sent if m.get("method") == "workspace/configuration"]
    )
    assert (loader.loads, session.responses(message_id)) == ([], [])
    session.reply(asked[0], [settings])
    await session.until(lambda: loader.loads)
    loader.loads[0][1].set_result(Engine())
    assert len((await session.response(message_id))["result"]["items"]) == items
    modes = [question.mode for question in session.policy.questions]
    assert modes == [(settings or {}).get("mode", "auto")] * items
    assert last_status(session)["kind"] == ("Normal" if items else "Inactive")


async def test_a_request_outlasts_a_load_that_is_overtaken(loading, loader):
    session = await loading(options={"model": "one"})
    uri = session.open("x = ")
    message_id = session.complete(uri, 0, 4)
    session.notify("workspace/didChangeConfiguration", {"settings": {"model": "two"}})
    await session.until(lambda: len(loader.loads) == 2)
    assert session.responses(message_id) == []
    loader.loads[1][1].set_result(Engine())
    assert (await session.response(message_id))["result"]["items"]


async def test_shutdown_answers_what_waits_for_the_model(loading, loader):
    session = await loading()
    message_id = session.complete(session.open("x = "), 0, 4)
    await asyncio.sleep(0)
    assert await session.result("shutdown") is None
    assert (await session.response(message_id))["result"] is None


@pytest.mark.parametrize("error", [ModelFileError("The file is cut short."), ValueError("boom")])
async def test_a_failed_load_ends_the_waiting(loading, loader, error):
    session = await loading()
    message_id = session.complete(session.open("x = "), 0, 4)
    loader.loads[0][1].set_exception(error)
    assert (await session.response(message_id))["result"]["items"] == []
    assert last_status(session)["kind"] == "Error"
    explained = await session.result("workspace/executeCommand", {"command": "hearth.explain"})
    assert explained["data"]["outcome"] == "failed"


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


async def test_what_failed_is_tried_again_by_a_later_request(loading, loader, failure):
    session = await loading()
    now = 0.0
    session.server.engine._clock = lambda: now
    uri = session.open("x = ")
    loader.loads[0][1].set_exception(failure("The engine did not start."))
    await session.until(lambda: session.server.engine.error)
    assert await session.items(uri, 0, 4) == []
    assert len(loader.loads) == 1  # it failed a moment ago
    now = RETRY_SECONDS
    assert await session.items(uri, 0, 4) == []
    await session.until(lambda: len(loader.loads) == 2)
    loader.loads[1][1].set_result(Engine())
    assert await session.items(uri, 0, 4, invoked=True)
    assert last_status(session) == {"busy": False, "message": "", "kind": "Normal"}


async def test_a_load_that_is_overtaken_closes_its_engine(loading, loader):
    session = await loading()
    loader.loads[0][1].set_result(Engine())
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
