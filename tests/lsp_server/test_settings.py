import pytest

from lsp_server.settings import Settings, read_settings


def test_defaults_need_nothing():
    assert read_settings(None, {}, {"hearth": None}) == (Settings(), [])


def test_later_layers_win_key_by_key():
    settings, problems = read_settings({"mode": "single", "maxTokens": 9}, {"hearth": {"mode": "multi"}})
    assert (settings.mode, settings.maxTokens, problems) == ("multi", 9, [])


@pytest.mark.parametrize(
    ("key", "value", "accepted"),
    [
        ("enabled", "yes", "true or false"),
        ("mode", "both", '"auto", "single" or "multi"'),
        ("maxTokens", "12", "from 1 to 1024"),
        ("maxTokens", True, "from 1 to 1024"),
        ("maxTokens", 0, "from 1 to 1024"),
        ("threads", 1.5, "from 0"),
        ("languages", ["python"], "object"),
        ("languages", {"python": "off"}, "object"),
        ("exclude", "*.txt", "list"),
        ("suggestions", 11, "from 1 to 10"),
        ("model", 3, "hearth models list"),
    ],
)
def test_a_wrong_value_is_named_explained_and_costs_only_itself(key, value, accepted):
    settings, (problem,) = read_settings({key: value, "debounceMs": 5})
    assert settings == Settings(debounceMs=5)
    assert f"hearth.{key}" in problem
    assert accepted in problem
    assert str(value).lower()[:5] in problem.lower().replace('"', "'")


def test_a_wrong_value_leaves_the_earlier_layer_in_force():
    settings, problems = read_settings({"mode": "single"}, {"mode": 7})
    assert settings.mode == "single"
    assert len(problems) == 1


def test_an_unknown_key_is_named_with_the_nearest_known_one():
    _, (problem,) = read_settings({"maxToken": 5})
    assert "hearth.maxToken" in problem
    assert "hearth.maxTokens" in problem


def test_what_editors_keep_in_our_section_is_no_mistake():
    assert read_settings({"trace": {"server": "verbose"}})[1] == []


@pytest.mark.parametrize("layer", [[], "x", 3, {"hearth": []}])
def test_a_layer_that_is_no_object_is_reported(layer):
    settings, problems = read_settings(layer)
    assert settings == Settings()
    assert len(problems) == 1


async def test_a_problem_is_shown_once_and_the_rest_is_in_force(session):
    await session.start(options={"mode": "both", "maxTokens": 5})
    session.notify("workspace/didChangeConfiguration", {"settings": {"hearth": {"suggestions": 2}}})
    (shown,) = session.notices("window/showMessage")
    assert "hearth.mode" in shown["message"]
    assert (session.server.settings.maxTokens, session.server.settings.suggestions) == (5, 2)


async def test_settings_are_pulled_where_the_client_can_be_asked(session):
    await session.initialize(
        {"workspace": {"configuration": True, "didChangeConfiguration": {"dynamicRegistration": True}}}
    )
    session.notify("initialized", {})
    registration = await session.until(lambda: sent(session, "client/registerCapability"))
    session.reply(registration, None)
    asked = await session.until(lambda: sent(session, "workspace/configuration"))
    assert asked["params"] == {"items": [{"section": "hearth"}]}
    assert session.engines == []  # the model to load is not known yet
    session.reply(asked, [{"maxTokens": 3}])
    await session.until(lambda: session.server.engine.policy)
    assert session.server.settings.maxTokens == 3

    session.sent.clear()
    session.notify("workspace/didChangeConfiguration", {"settings": None})
    asked = await session.until(lambda: sent(session, "workspace/configuration"))
    session.reply(asked, [{"maxTokens": 4, "threads": 1}])
    await session.until(lambda: len(session.engines) == 2 and session.server.engine.policy)
    assert session.server.settings.maxTokens == 4
    assert session.engines[0].closed


async def test_a_client_that_refuses_to_give_settings_gets_the_defaults(session):
    await session.initialize({"workspace": {"configuration": True}})
    session.notify("initialized", {})
    asked = await session.until(lambda: sent(session, "workspace/configuration"))
    session.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "no"}})
    await session.until(lambda: session.server.engine.policy)
    assert session.server.settings == Settings()


def sent(session, method):
    return next((m for m in session.sent if m.get("method") == method), None)
