"""`initialize`: learn what the client can do, say what the server does."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from lsp_server.documents.encoding import choose_encoding
from lsp_server.documents.store import Documents
from lsp_server.documents.workspace import Workspace
from lsp_server.requests.execute_command import COMMANDS
from lsp_server.transport.errors import RpcError
from lsp_server.transport.methods import Method
from lsp_server.transport.params import params_class
from lsp_server.transport.protocol import Phase

if TYPE_CHECKING:
    from lsp_server.server import HearthServer

log = logging.getLogger(__name__)


@params_class
class Folder:
    """A workspace folder."""

    uri: str


@params_class
class InitializeParams:
    """Only what Hearth uses: an unknown value elsewhere must not keep the session from starting."""

    capabilities: dict[str, Any]
    process_id: int | None = None
    root_uri: str | None = None
    workspace_folders: list[Folder] | None = None
    initialization_options: Any = None


class Client:
    """What the client can do, as far as it matters here. `raw` is its capabilities object, unchecked."""

    def __init__(self, raw: object) -> None:
        offered = _at(raw, "general", "positionEncodings")
        self.encoding = choose_encoding(offered if isinstance(offered, list) else [])
        self.progress = _at(raw, "window", "workDoneProgress") is True
        self.configuration = _at(raw, "workspace", "configuration") is True
        self.registers_configuration = (
            _at(raw, "workspace", "didChangeConfiguration", "dynamicRegistration") is True
        )


def handle(server: HearthServer, params: InitializeParams) -> lsp.InitializeResult:
    """Raises RpcError when the session is already initialized."""
    if server.protocol.phase is not Phase.NEW:
        raise RpcError(lsp.ErrorCodes.InvalidRequest, "initialize may be sent only once.")
    server.client = Client(params.capabilities)
    server.documents = Documents(server.client.encoding)
    folders = [folder.uri for folder in params.workspace_folders or []]
    server.workspace = Workspace(folders or ([params.root_uri] if params.root_uri else []))
    server.initialization_options = params.initialization_options
    if params.process_id is not None:
        server.watch_parent(params.process_id)
    server.protocol.phase = Phase.RUNNING
    log.info("Hearth %s serves an editor that counts in %s", server.version, server.client.encoding)
    return lsp.InitializeResult(
        capabilities=capabilities(server.client),
        server_info=lsp.ServerInfo(name=server.name, version=server.version),
    )


def capabilities(client: Client) -> lsp.ServerCapabilities:
    """What the server offers this client."""
    all_files = lsp.FileOperationRegistrationOptions(
        filters=[lsp.FileOperationFilter(pattern=lsp.FileOperationPattern(glob="**/*"))]
    )
    return lsp.ServerCapabilities(
        position_encoding=lsp.PositionEncodingKind(client.encoding.value),
        text_document_sync=lsp.TextDocumentSyncOptions(
            open_close=True, change=lsp.TextDocumentSyncKind.Incremental
        ),
        inline_completion_provider=lsp.InlineCompletionOptions(),
        execute_command_provider=lsp.ExecuteCommandOptions(commands=list(COMMANDS)),
        workspace=lsp.WorkspaceOptions(
            workspace_folders=lsp.WorkspaceFoldersServerCapabilities(
                supported=True, change_notifications=True
            ),
            file_operations=lsp.FileOperationOptions(did_rename=all_files),
        ),
    )


def _at(raw: object, *path: str) -> object:
    for key in path:
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw


METHOD = Method(lsp.INITIALIZE, InitializeParams, handle)
