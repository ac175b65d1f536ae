"""Notices about the workspace: settings, folders, renamed files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from lsp_server.transport.methods import Method
from lsp_server.transport.params import params_class

if TYPE_CHECKING:
    from lsp_server.server import HearthServer


@params_class
class ConfigurationParams:
    """settings: pushed by clients without workspace/configuration, else empty or null."""

    settings: Any = None


def did_change_configuration(server: HearthServer, params: ConfigurationParams) -> None:
    """Take the settings as pushed, or ask for them."""
    server.refresh_settings(pushed=params.settings)


def did_change_folders(server: HearthServer, params: lsp.DidChangeWorkspaceFoldersParams) -> None:
    """Keep relative paths right."""
    for folder in params.event.removed:
        server.workspace.remove(folder.uri)
    for folder in params.event.added:
        server.workspace.add(folder.uri)


def did_rename_files(server: HearthServer, params: lsp.RenameFilesParams) -> None:
    """Drop what was kept under the old names; the editor closes and opens the documents themselves."""
    for file in params.files:
        server.forget(file.old_uri)


METHODS = (
    Method(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION, ConfigurationParams, did_change_configuration),
    Method(
        lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS, lsp.DidChangeWorkspaceFoldersParams, did_change_folders
    ),
    Method(lsp.WORKSPACE_DID_RENAME_FILES, lsp.RenameFilesParams, did_rename_files),
)
