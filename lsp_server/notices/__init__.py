"""Notices (notifications) from the client, by topic. To add one: write its handler, list it in METHODS."""

from lsp_server.notices import focus, lifecycle, suggestions, text_sync, workspace
from lsp_server.transport.methods import Method

NOTICES: dict[str, Method] = {
    method.name: method
    for module in (lifecycle, text_sync, workspace, focus, suggestions)
    for method in module.METHODS
}
