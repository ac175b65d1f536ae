"""What coding agents send, and their own rules for reading what comes back.

recorded/ holds bodies that the programs themselves sent in the middle of a task, after calls of tools;
prose, ids and most of their tools are taken out. Where a program could not be recorded, its body is
written here as its documentation and source tell.
"""

import json
from pathlib import Path

import pytest

from engine.types import ChatDelta, FinishReason, ToolCallDelta

RECORDED = Path(__file__).parent / "recorded"
PATCH = '*** Begin Patch\n*** Update File: a.py\n@@\n-print("hi")\n+print("Grüße 🎉")\n*** End Patch\n'


def recorded(name):
    return json.loads((RECORDED / f"{name}.json").read_text())


def working(timing, *calls):
    """Reasoning, text, and calls whose arguments come in small pieces."""
    script = [ChatDelta(reasoning="Let me ", tokens=2, timing=timing), ChatDelta(reasoning="look.", tokens=1)]
    script += [ChatDelta("I ", tokens=1), ChatDelta("look.", tokens=1)]
    for index, (name, arguments) in enumerate(calls):
        text = json.dumps(arguments)
        script.append(ChatDelta(tool_calls=(ToolCallDelta(index, f"call_{index}", name),)))
        script += [
            ChatDelta(tool_calls=(ToolCallDelta(index, arguments=text[at : at + 5]),))
            for at in range(0, len(text), 5)
        ]
    finish = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
    return [*script, ChatDelta(finish=finish, timing=timing)]


@pytest.fixture
def send(server):
    """send(recording): the events of the streamed answer, as (name, data)."""

    async def post(recording):
        client = server.client(headers=recording["headers"])
        response = await client.post(recording["target"], json=recording["body"])
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        return [_event(block) for block in response.text.split("\n\n") if block]

    return post


def _event(block):
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    assert fields.keys() <= {"event", "data"}
    return fields.get("event"), fields["data"]


def read_messages(events):
    """As Anthropic's SDKs, and so Claude Code, put a message together: each event fits those before it."""
    message, parts, is_open = None, {}, False
    for name, data in events:
        event = json.loads(data)
        assert event["type"] == name
        assert message is not None or name == "message_start"
        assert message is None or message["stop_reason"] is None or name == "message_stop"
        match name:
            case "message_start":
                assert message is None
                message = event["message"]
                assert message["content"] == []
                assert message["usage"].keys() >= {"input_tokens", "output_tokens"}
            case "content_block_start":
                assert event["index"] == len(message["content"])
                assert not is_open
                is_open = True
                message["content"].append(event["content_block"])
            case "content_block_delta":
                assert is_open
                assert event["index"] == len(message["content"]) - 1
                block, delta = message["content"][-1], event["delta"]
                kind, field = {
                    "text_delta": ("text", "text"),
                    "thinking_delta": ("thinking", "thinking"),
                    "signature_delta": ("thinking", "signature"),
                    "input_json_delta": ("tool_use", "partial_json"),
                }[delta["type"]]
                assert block["type"] == kind
                if kind == "tool_use":
                    parts[event["index"]] = parts.get(event["index"], "") + delta[field]
                else:
                    block[field] += delta[field]
            case "content_block_stop":
                assert is_open
                is_open = False
                if event["index"] in parts:
                    message["content"][-1]["input"] = json.loads(parts[event["index"]])
            case "message_delta":
                assert not is_open
                message |= event["delta"]
                message["usage"] |= event["usage"]
                message["context_management"] = event.get("context_management")
            case _:
                assert name == "message_stop"
    assert events[-1][0] == "message_stop"
    return message


async def test_claude_code(engine, send):
    calls = [("Read", {"file_path": "/w/a.py"}), ("Bash", {"command": "echo hi", "description": "d"})]
    engine.chats = working(engine.chats[-1].timing, *calls)
    message = read_messages(await send(recorded("claude_code")))
    thinking, text, *uses = message["content"]
    assert (thinking["thinking"], text["text"]) == ("Let me look.", "I look.")
    assert [(use["name"], use["input"]) for use in uses] == calls
    assert message["stop_reason"] == "tool_use"
    assert message["context_management"] == {"applied_edits": []}
    asked = engine.request
    assert (asked.thinking, asked.thinking_optional, asked.thinking_budget) == (True, True, 16384)
    assert "x-anthropic-billing-header" not in asked.messages[0].content
    roles = [one.role for one in asked.messages]
    assert roles == ["system", "user", "system", "assistant", "tool", "tool", "assistant", "tool"]
    assert asked.messages[3].reasoning == "Let me look."
    assert asked.tools[0].parameters["$schema"] == "https://json-schema.org/draft/2020-12/schema"


async def test_claude_code_counts_tokens(ask, engine):
    recording = recorded("claude_code")
    kept = ("model", "messages", "system", "tools", "thinking", "context_management", "output_config")
    body = {name: recording["body"][name] for name in kept}
    response = await ask("/v1/messages/count_tokens?beta=true", body)
    assert response.status_code == 200, response.text
    assert response.json() == {"input_tokens": 42, "context_management": {"original_input_tokens": 42}}


# Fields that Codex cannot do without, by the kind of item: its reader drops an item that lacks one.
ITEM_FIELDS = {
    "message": {"role", "content"},
    "reasoning": {"summary"},
    "function_call": {"name", "arguments", "call_id"},
    "custom_tool_call": {"name", "input", "call_id"},
}
DELTAS = {
    "response.output_text.delta": "message",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}


def read_responses(events):
    """As Codex reads a response: the items that are done, in order, and the response that ends it."""
    done, opened, grown, last = [], None, "", None
    for name, data in events:
        event = json.loads(data)
        assert event["type"] == name
        assert last is None, "something follows the end"
        match name:
            case "response.output_item.added":
                assert opened is None
                opened, grown = event["item"], ""
                assert opened.keys() >= ITEM_FIELDS[opened["type"]]
            case "response.output_item.done":
                item = event["item"]
                assert (item["id"], item["type"]) == (opened["id"], opened["type"])
                assert item.keys() >= ITEM_FIELDS[item["type"]]
                whole = item.get("arguments", item.get("input"))
                assert grown == (item["content"][0]["text"] if whole is None else whole)
                done.append(item)
                opened = None
            case "response.completed":
                last = event["response"]
            case _ if name in DELTAS:
                assert opened["type"] == DELTAS[name]
                assert event["item_id"] == opened["id"]
                grown += event["delta"]
    assert events[0][0] == "response.created"
    assert last["id"]
    assert last["usage"].keys() >= {"input_tokens", "output_tokens", "total_tokens"}
    assert last["output"] == done
    return done


async def test_codex(engine, send):
    cmd, target = {"cmd": "cat a.py"}, {"target": "nobody"}
    shown = [("exec_command", cmd), ("multi_agent_v1.close_agent", target)]
    engine.chats = working(engine.chats[-1].timing, *shown)
    items = read_responses(await send(recorded("codex")))
    assert [item["type"] for item in items] == ["reasoning", "message", "function_call", "function_call"]
    calls = [(item.get("namespace"), item["name"], json.loads(item["arguments"])) for item in items[2:]]
    assert calls == [(None, "exec_command", cmd), ("multi_agent_v1", "close_agent", target)]
    assert [tool.name for tool in engine.request.tools] == [
        "exec_command",
        "write_stdin",
        "multi_agent_v1.close_agent",
        "multi_agent_v1.wait_agent",
    ]
    # What it sent back of its last turn is what the model was shown, and wrote.
    (turn,) = [message for message in engine.request.messages if message.role == "assistant"]
    assert turn.reasoning == "Let me look."
    assert [(call.name, json.loads(call.arguments)) for call in turn.tool_calls] == shown


async def test_codex_with_a_tool_of_free_form(engine, send):
    engine.chats = working(engine.chats[-1].timing, ("apply_patch", {"input": PATCH}))
    *_, call = read_responses(await send(recorded("codex_freeform")))
    assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "apply_patch", PATCH)
    asked = engine.request
    assert (asked.thinking, asked.thinking_optional, asked.thinking_budget) == (True, True, 8192)
    patch = asked.tools[1]
    assert patch.parameters["properties"] == {"input": {"type": "string"}}
    assert "*** Begin Patch" in patch.description
    last = asked.messages[-2].tool_calls[0]
    assert last.name == "apply_patch"
    assert json.loads(last.arguments)["input"].startswith("*** Begin Patch\n")
    assert asked.messages[-1].tool_call_id == last.id


async def test_codex_asks_for_models_in_its_own_way(server):
    response = await server.client().get("/v1/models?client_version=0.171.0")
    assert response.status_code == 200


def read_chunks(events):
    """As the clients of chats put a message together: calls by index, whose first piece has id and name."""
    assert all(name is None for name, _ in events)
    assert events[-1][1] == "[DONE]"
    text, reasoning, calls, finish, usage = "", "", [], None, None
    for _, data in events[:-1]:
        chunk = json.loads(data)
        assert chunk["object"] == "chat.completion.chunk"
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            assert finish is None
            delta = choice["delta"]
            text += delta.get("content") or ""
            reasoning += delta.get("reasoning_content") or ""
            for piece in delta.get("tool_calls", ()):
                if piece["index"] == len(calls):
                    assert piece["type"] == "function"
                    calls.append({"id": piece["id"], "name": piece["function"]["name"], "arguments": ""})
                calls[piece["index"]]["arguments"] += piece["function"]["arguments"]
            finish = choice["finish_reason"]
    return text, reasoning, calls, finish, usage


@pytest.mark.parametrize(
    ("name", "tool", "arguments"),
    [
        ("opencode", "edit", {"filePath": "/w/a.py", "oldString": "hi", "newString": "hello"}),
        ("continue", "Read", {"filepath": "/w/a.py"}),
        ("cline", "read_files", {"files": [{"path": "/w/a.py", "start_line": None}]}),
        ("qwen_code", "read_file", {"file_path": "/w/a.py"}),
    ],
)
async def test_agents_that_speak_chat_completions(engine, send, name, tool, arguments):
    recording = recorded(name)
    tools = [one["function"]["name"] for one in recording["body"]["tools"]]
    engine.chats = working(engine.chats[-1].timing, (tool, arguments), (tools[-1], {}))
    text, reasoning, calls, finish, usage = read_chunks(await send(recording))
    assert (text, reasoning, finish) == ("I look.", "Let me look.", "tool_calls")
    assert [(call["name"], json.loads(call["arguments"])) for call in calls] == [
        (tool, arguments),
        (tools[-1], {}),
    ]
    assert usage["total_tokens"] == 13
    asked = engine.request
    assert [one.name for one in asked.tools] == tools
    assert asked.max_tokens == recording["body"].get("max_tokens", 4096)
    # The calls it sent back are those of the turns before, and each has its result.
    sent = [call for message in asked.messages for call in message.tool_calls]
    assert sent
    assert [call.id for call in sent] == [
        message.tool_call_id for message in asked.messages if message.role == "tool"
    ]
    assert all(isinstance(json.loads(call.arguments), dict) for call in sent)


async def test_aider(engine, send):
    engine.chats = working(engine.chats[-1].timing)
    text, *_, finish, usage = read_chunks(await send(recorded("aider")))
    assert (text, finish, usage) == ("I look.", "stop", None)
    assert engine.request.sampling.temperature == 0


async def test_zed(engine, send):
    """As its source tells; nothing of it could be recorded."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    function = {"name": "read_file", "arguments": '{"path": "a"}'}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    body = {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": [parts[0]]},
            {"role": "user", "content": parts},
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "c", "content": [parts[1]]},
        ],
        "max_completion_tokens": 2048,
        "temperature": 1.0,
        "stop": [],
        "tools": [{"type": "function", "function": {"name": "read_file", "parameters": schema}}],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "prompt_cache_key": "0",
        "reasoning_effort": "medium",
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    engine.chats = working(engine.chats[-1].timing, ("read_file", {"path": "b"}))
    recording = {"target": "/v1/chat/completions", "headers": {}, "body": body}
    _, _, calls, finish, usage = read_chunks(await send(recording))
    assert (finish, usage["total_tokens"]) == ("tool_calls", 13)
    assert json.loads(calls[0]["arguments"]) == {"path": "b"}
    asked = engine.request
    assert [message.content for message in asked.messages] == ["a", "ab", "", "b"]
    assert (asked.max_tokens, asked.thinking_budget, asked.parallel_tool_calls) == (2048, 8192, False)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (
            "claude_code",
            {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
            "context_management.edits.0: 'clear_tool_uses_20250919' is not supported",
        ),
        (
            "claude_code",
            {"context_management": {"edits": [{"type": "compact_20260112"}]}},
            "context_management.edits.0: 'compact_20260112' is not supported",
        ),
        ("claude_code", {"mcp_servers": [{"type": "url"}]}, "mcp_servers: "),
        (
            "claude_code",
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "tools.0.type: ",
        ),
        ("codex", {"tools": [{"type": "web_search"}]}, "tools.0: 'web_search' is not supported"),
        ("codex", {"tools": [{"type": "local_shell"}]}, "tools.0: 'local_shell' is not supported"),
        ("codex", {"tools": [{"type": "tool_search"}]}, "tools.0: 'tool_search' is not supported"),
        ("codex", {"previous_response_id": "resp_1"}, "previous_response_id: "),
        ("opencode", {"functions": [{"name": "f"}]}, "functions: "),
    ],
)
async def test_what_agents_may_send_and_is_refused_is_named(server, engine, name, change, words):
    recording = recorded(name)
    body = {**recording["body"], **change}
    response = await server.client().post(recording["target"], json=body)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(words)
    assert not engine.requests
