"""Requests, one a file. To add one: write its module, and list its METHOD here."""

from lsp_server.inline_completion import handler as inline_completion
from lsp_server.requests import execute_command, initialize, shutdown
from lsp_server.transport.methods import Method

REQUESTS: dict[str, Method] = {
    module.METHOD.name: module.METHOD for module in (initialize, shutdown, inline_completion, execute_command)
}
