"""What became of a suggestion, in the notices that Copilot clients send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsp_server.inline_completion.question import ACCEPTED_COMMAND
from lsp_server.transport.errors import InvalidParamsError
from lsp_server.transport.methods import Method
from lsp_server.transport.params import params_class

if TYPE_CHECKING:
    from lsp_server.server import HearthServer


@params_class
class ShownParams:
    """item: the inline completion item, as it was sent; its command holds the suggestion's id."""

    item: dict[str, Any]


@params_class
class PartlyAcceptedParams:
    """accepted_length: UTF-16 units from the start of the item's insertText, all accepted parts together."""

    item: dict[str, Any]
    accepted_length: int


def did_show(server: HearthServer, params: ShownParams) -> None:
    """`textDocument/didShowCompletion`."""
    suggestion_id = _suggestion_id(params.item)
    if server.engine.policy is not None:
        server.engine.policy.shown(suggestion_id)


def did_partially_accept(server: HearthServer, params: PartlyAcceptedParams) -> None:
    """`textDocument/didPartiallyAcceptCompletion`."""
    suggestion_id = _suggestion_id(params.item)
    if params.accepted_length < 0:
        raise InvalidParamsError("params.acceptedLength: must be 0 or more")
    if server.engine.policy is not None:
        server.engine.policy.partially_accepted(suggestion_id, params.accepted_length)


def _suggestion_id(item: dict[str, Any]) -> str:
    command = item.get("command")
    if isinstance(command, dict) and command.get("command") == ACCEPTED_COMMAND:
        arguments = command.get("arguments")
        if isinstance(arguments, list) and len(arguments) == 1 and isinstance(arguments[0], str):
            return arguments[0]
    raise InvalidParamsError("params.item.command: not the command of an item from Hearth")


METHODS = (
    Method("textDocument/didShowCompletion", ShownParams, did_show),
    Method("textDocument/didPartiallyAcceptCompletion", PartlyAcceptedParams, did_partially_accept),
)
