"""A language server that answers from a script, so that a client's behaviour can be tested exactly.

    python scripted_server.py SCRIPT.json LOG.jsonl

Plain JSON-RPC on stdio without a library: the log must show the messages as they came, unknown fields and
faults included. LOG gets one JSON object a line for every message received. SCRIPT is read again for every
request, so a test may change it while the server runs:

    {"encoding": "utf-16",            position encoding to choose; default: the client's first
     "rules": [RULE, ...],            the first rule that matches a completion request answers it
     "status": {...},                 a didChangeStatus notice, sent with the next answer after it changed
     "exit_at_start": 3}              leave with this exit code instead of serving

RULE: {"anchor": REGEX,               searched in the line left of the cursor; its end is the range's start
       "texts": [TEXT, ...],          insertText of the items, kept only while it starts with what was typed
       "covers": N,                   the range covers N more characters right of the cursor
       "command": true,               items carry the command `scripted.accepted`
       "answer": "null" | "error" | "hold" | "crash"}     instead of items; a held request waits for
                                      `test/release` or its cancellation
Requests that no rule matches get an empty list.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

SCRIPT = Path(sys.argv[1])
LOG = Path(sys.argv[2])
REQUEST_CANCELLED = -32800
UNITS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
UNIT_BYTES = {"utf-8": 1, "utf-16": 2, "utf-32": 4}

documents: dict[str, str] = {}
held: dict[int | str, dict[str, Any]] = {}
encoding = "utf-16"
status: dict[str, Any] | None = None


def script() -> dict[str, Any]:
    return json.loads(SCRIPT.read_text(encoding="utf-8"))


def log(entry: dict[str, Any]) -> None:
    with LOG.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


def read() -> dict[str, Any] | None:
    length = 0
    while (line := sys.stdin.buffer.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return json.loads(sys.stdin.buffer.read(length)) if length else None


def units(text: str) -> int:
    return len(text.encode(UNITS[encoding])) // UNIT_BYTES[encoding]


def left_of(line: str, character: int) -> str:
    return line.encode(UNITS[encoding])[: character * UNIT_BYTES[encoding]].decode(UNITS[encoding])


def offset(text: str, position: dict[str, int]) -> int:
    """Index of an LSP position in the text."""
    start = 0
    for _ in range(position["line"]):
        end = re.compile(r"\r\n|\r|\n").search(text, start)
        assert end is not None, f"no line {position['line']}"
        start = end.end()
    return start + len(left_of(re.split(r"\r|\n", text[start:], maxsplit=1)[0], position["character"]))


def apply_change(uri: str, change: dict[str, Any]) -> None:
    if "range" not in change:
        documents[uri] = change["text"]
        return
    text = documents[uri]
    start, end = (offset(text, change["range"][side]) for side in ("start", "end"))
    documents[uri] = text[:start] + change["text"] + text[end:]


def items(rule: dict[str, Any], params: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The rule's items at the request's position; None when the rule is not for it."""
    position = params["position"]
    lines = re.split(r"\r\n|\r|\n", documents[params["textDocument"]["uri"]])
    line = lines[position["line"]]
    left = left_of(line, position["character"])
    match = re.search(rule.get("anchor", "$"), left)
    if match is None:
        return None
    typed = left[match.end() :]
    right = line[len(left) :][: rule.get("covers", 0)]
    found = []
    for number, text in enumerate(rule.get("texts", [])):
        if not text.startswith(typed):
            continue
        item: dict[str, Any] = {
            "insertText": text,
            "range": {
                "start": {"line": position["line"], "character": units(left[: match.end()])},
                "end": {"line": position["line"], "character": units(left + right)},
            },
        }
        if rule.get("command"):
            item["command"] = {"title": "accepted", "command": "scripted.accepted", "arguments": [number]}
        found.append(item)
    return found


def tell_status() -> None:
    global status
    if (new := script().get("status")) != status:
        status = new
        send({"method": "didChangeStatus", "params": new or {"busy": False, "kind": "Normal", "message": ""}})


def complete(identifier: int | str, params: dict[str, Any]) -> None:
    tell_status()
    for rule in script().get("rules", []):
        found = items(rule, params)
        if found is None:
            continue
        match rule.get("answer"):
            case "crash":
                os._exit(3)
            case "hold":
                held[identifier] = {"items": found}
            case "null":
                send({"id": identifier, "result": None})
            case "error":
                send({"id": identifier, "error": {"code": -32603, "message": "scripted fault"}})
            case _:
                send({"id": identifier, "result": {"items": found}})
        return
    send({"id": identifier, "result": {"items": []}})


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    global encoding
    offered = params["capabilities"].get("general", {}).get("positionEncodings") or ["utf-16"]
    encoding = script().get("encoding", offered[0])
    return {
        "capabilities": {
            "positionEncoding": encoding,
            "textDocumentSync": {"openClose": True, "change": 2, "save": {"includeText": False}},
            "inlineCompletionProvider": {},
            "executeCommandProvider": {"commands": ["scripted.accepted", "hearth.explain", "hearth.status"]},
            "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
        },
        "serverInfo": {"name": "scripted"},
    }


def handle(message: dict[str, Any]) -> None:
    method, identifier, params = message.get("method"), message.get("id"), message.get("params")
    match method:
        case "initialize":
            send({"id": identifier, "result": initialize(params)})
        case "textDocument/didOpen":
            documents[params["textDocument"]["uri"]] = params["textDocument"]["text"]
        case "textDocument/didChange":
            for change in params["contentChanges"]:
                apply_change(params["textDocument"]["uri"], change)
        case "textDocument/inlineCompletion":
            complete(identifier, params)
        case "$/cancelRequest":
            if held.pop(params["id"], None) is not None:
                send({"id": params["id"], "error": {"code": REQUEST_CANCELLED, "message": "cancelled"}})
        case "test/release":
            for waiting, result in list(held.items()):
                send({"id": waiting, "result": result})
            held.clear()
        case "test/status":
            send({"method": "didChangeStatus", "params": params})
        case "workspace/executeCommand":
            arguments = params.get("arguments") or [""]
            name = Path(unquote(urlsplit(str(arguments[0])).path)).name
            send({"id": identifier, "result": {"text": f"{params['command']} {name}", "data": None}})
        case "shutdown":
            send({"id": identifier, "result": None})
        case "exit":
            sys.exit(0)
        case _:
            if identifier is not None and method is not None:
                send({"id": identifier, "error": {"code": -32601, "message": f"no {method}"}})


def main() -> None:
    if "exit_at_start" in script():
        log({"method": "test/exitAtStart"})
        sys.exit(script()["exit_at_start"])
    while (message := read()) is not None:
        log(message)
        handle(message)


if __name__ == "__main__":
    main()
