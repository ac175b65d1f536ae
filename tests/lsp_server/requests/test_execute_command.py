import pytest

METHOD = "workspace/executeCommand"


async def run(session, command, *arguments):
    return await session.result(METHOD, {"command": command, "arguments": list(arguments)})


async def test_accepting_reaches_the_policy(session):
    policy = await session.start()
    (item,) = await session.items(session.open("x = "), 0, 4)
    assert await session.result(METHOD, item["command"]) is None
    assert policy.calls == [("accepted", "id0")]


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("hearth.nothing", []),
        ("hearth.accepted", []),
        ("hearth.accepted", [1]),
        ("hearth.accepted", ["a", "b"]),
        ("hearth.explain", [{}]),
        ("hearth.explain", ["a", "b"]),
        ("hearth.status", [1]),
    ],
)
async def test_wrong_commands_and_arguments_are_refused_in_words(session, command, arguments):
    await session.start()
    error = await session.error(METHOD, {"command": command, "arguments": arguments})
    assert error["code"] == -32602
    assert command in error["message"]


async def test_accepting_while_no_model_is_loaded_is_no_error(session):
    await session.initialize()
    assert await run(session, "hearth.accepted", "old") is None


async def test_explain_tells_why_there_is_a_suggestion(session):
    await session.start()
    uri = session.open("x = \n")
    await session.items(uri, 0, 4)
    explained = await run(session, "hearth.explain", uri)
    assert explained["data"]["outcome"] == "shown"
    assert explained["data"]["trace"].pop("waited_s") >= 0
    assert explained["data"]["trace"] == {"promptTokens": 7}
    assert explained["data"]["position"] == {"line": 0, "character": 4}
    assert "the fake said so" in explained["text"]
    assert "promptTokens: 7" in explained["text"]


async def test_explain_tells_why_there_is_none(session):
    policy = await session.start()
    policy.insert = []
    uri = session.open("x = \n")
    await session.items(uri, 0, 4)
    explained = await run(session, "hearth.explain")
    assert (explained["data"]["outcome"], explained["data"]["uri"]) == ("nothing", uri)
    assert "nothing fits" in explained["text"]


async def test_explain_tells_of_a_cancelled_request(session):
    await session.start()
    message_id = session.complete(session.open("x = \n"), 0, 4)
    session.notify("$/cancelRequest", {"id": message_id})
    await session.response(message_id)
    await session.until(lambda: session.server.explanations.latest().outcome != "waiting")
    assert "cancelled" in (await run(session, "hearth.explain"))["text"]


async def test_explain_without_a_request_says_so(session):
    await session.start()
    assert (await run(session, "hearth.explain"))["data"] is None
    assert (await run(session, "hearth.explain", "file:///never"))["data"] is None


async def test_status_gives_engine_settings_and_encoding(session):
    await session.start(options={"mode": "multi"})
    status = await run(session, "hearth.status")
    assert status["data"]["engine"]["model"] == "fake"
    assert status["data"]["settings"]["mode"] == "multi"
    assert status["data"]["positionEncoding"] == "utf-16"
    assert "model: fake" in status["text"]
