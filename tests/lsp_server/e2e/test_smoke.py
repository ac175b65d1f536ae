async def test_a_completion_over_stdio(spawn):
    async with spawn() as client:
        await client.initialize()
        document = {"uri": "file:///a.py", "languageId": "python", "version": 1, "text": "x = \n"}
        await client.notify("textDocument/didOpen", {"textDocument": document})
        answer = await client.request(
            "textDocument/inlineCompletion",
            {
                "textDocument": {"uri": "file:///a.py"},
                "position": {"line": 0, "character": 4},
                "context": {"triggerKind": 2},
            },
        )
        (item,) = answer["result"]["items"]
        assert item["insertText"] == "ghost"
        place = {"line": 0, "character": 4}
        assert item["range"] == {"start": place, "end": place}
        assert item["command"]["command"] == "hearth.accepted"
        assert "result" in await client.request("shutdown")
        await client.notify("exit")
        assert await client.exit_code() == 0
