"""`workspace/executeCommand`: accept telemetry, "why?", and the server's state."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from lsp_server.inline_completion.question import ACCEPTED_COMMAND
from lsp_server.transport.errors import InvalidParamsError
from lsp_server.transport.methods import Method
from lsp_server.transport.params import params_class

if TYPE_CHECKING:
    from lsp_server.server import HearthServer

EXPLAIN_COMMAND = "hearth.explain"
STATUS_COMMAND = "hearth.status"


@params_class
class ExecuteCommandParams:
    """A command and its arguments, passed on exactly as they came."""

    command: str
    arguments: list[Any] | None = None


def handle(server: HearthServer, params: ExecuteCommandParams) -> Any:
    """Raises InvalidParamsError for an unknown command or wrong arguments."""
    command = COMMANDS.get(params.command)
    if command is None:
        raise InvalidParamsError(f"params.command: {params.command!r} is not a command of Hearth.")
    return command(server, params.arguments or [])


def accepted(server: HearthServer, arguments: list[Any]) -> None:
    """[id of the suggestion]: the user took it."""
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise InvalidParamsError(f"params.arguments: {ACCEPTED_COMMAND} takes the suggestion's id, a string.")
    if server.engine.policy is not None:
        server.engine.policy.accepted(arguments[0])


def explain(server: HearthServer, arguments: list[Any]) -> dict[str, Any]:
    """[uri], or [] for the document that was asked about last: {text, data}."""
    if len(arguments) > 1 or not all(isinstance(argument, str) for argument in arguments):
        raise InvalidParamsError(f"params.arguments: {EXPLAIN_COMMAND} takes a document's URI, or nothing.")
    explanation = server.explanations.latest(arguments[0] if arguments else None)
    if explanation is None:
        return {"text": "No completion has been asked for in this document yet.", "data": None}
    return {"text": explanation.as_text(), "data": explanation.as_data()}


async def status(server: HearthServer, arguments: list[Any]) -> dict[str, Any]:
    """[]: {text, data} with the engine's state, the settings in force and the log file."""
    if arguments:
        raise InvalidParamsError(f"params.arguments: {STATUS_COMMAND} takes none.")
    engine = asdict(await server.engine.engine.status()) if server.engine.engine is not None else None
    state = server.engine_state_in_words()
    data = {
        "server": {"name": server.name, "version": server.version},
        "engine": engine,
        "message": state,
        "settings": server.settings.model_dump(),
        "positionEncoding": server.documents.encoding.value,
        "logFile": str(server.log_file) if server.log_file else None,
    }
    lines = [f"{server.name} {server.version}: {state}"]
    lines += [f"{key}: {value}" for key, value in (engine or {}).items() if value not in ("", 0, 0.0)]
    if server.log_file:
        lines.append(f"log file: {server.log_file}")
    return {"text": "\n".join(lines), "data": data}


COMMANDS: dict[str, Callable[[HearthServer, list[Any]], Any | Coroutine[None, None, Any]]] = {
    ACCEPTED_COMMAND: accepted,
    EXPLAIN_COMMAND: explain,
    STATUS_COMMAND: status,
}
METHOD = Method(lsp.WORKSPACE_EXECUTE_COMMAND, ExecuteCommandParams, handle)
