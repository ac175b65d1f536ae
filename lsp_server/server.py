"""The language server: one per editor window. It wires documents, settings, status and engine together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.server import JsonRPCServer

from engine.errors import HearthError
from lsp_server.documents.store import Documents
from lsp_server.documents.workspace import Workspace
from lsp_server.engine_host import EngineFactory, EngineHost, PolicyFactory
from lsp_server.inline_completion.completion import Reply
from lsp_server.inline_completion.dispatcher import Dispatcher
from lsp_server.inline_completion.explanation import Explanations
from lsp_server.notices import NOTICES
from lsp_server.notices.focus import warm_focused
from lsp_server.progress import Progress
from lsp_server.requests import REQUESTS
from lsp_server.requests.initialize import Client
from lsp_server.settings import SECTION, Settings, read_settings
from lsp_server.status import METHOD as STATUS_NOTICE
from lsp_server.status import Status, StatusReporter
from lsp_server.transport import parent
from lsp_server.transport.params import converter
from lsp_server.transport.protocol import HearthProtocol

log = logging.getLogger(__name__)


class HearthServer(JsonRPCServer):
    """State of one session. Everything runs on one event loop; the engine does its work elsewhere.

    engine_factory: makes the engine that the settings ask for; called in the background after `initialized`.
    policy_factory: makes the completion policy over that engine.
    log_file: where the details of failures are, told to people.
    """

    name = "hearth"
    protocol: HearthProtocol

    def __init__(
        self, engine_factory: EngineFactory, policy_factory: PolicyFactory, log_file: Path | None = None
    ) -> None:
        super().__init__(HearthProtocol, converter)
        self.version = _version()
        self.requests = REQUESTS
        self.notices = NOTICES
        self.log_file = log_file
        self.stopped = asyncio.Event()
        self.client = Client({})
        self.documents = Documents()
        self.workspace = Workspace()
        self.initialization_options: object = None
        self.settings = Settings()
        self.dispatcher: Dispatcher[Reply] = Dispatcher()
        self.explanations = Explanations()
        self.cursors: dict[str, int] = {}  # by URI: where the user last worked, in code points
        self.focused: str | None = None
        self.status = StatusReporter(lambda params: self.protocol.notify(STATUS_NOTICE, params))
        self.engine = EngineHost(
            engine_factory,
            policy_factory,
            on_loading=self._engine_loading,
            on_ready=self._engine_ready,
            on_failed=self._engine_failed,
        )
        self._progress: Progress | None = None
        self._loads = 0
        self._background: set[asyncio.Task[None]] = set()
        self._told: set[str] = set()
        self._stop_watching: Callable[[], None] = lambda: None
        self._closed = False

    def start(self) -> None:
        """The session has begun: read the settings, then load the model."""
        if self.client.registers_configuration:
            self._in_background(self._register_for_configuration())
        self.refresh_settings()

    def refresh_settings(self, pushed: object = None) -> None:
        """Read the settings anew: from the client where it can be asked, else as pushed."""
        if self.client.configuration:
            self._in_background(self._pull_settings())
        else:
            self._use_settings(pushed)

    def forget(self, uri: str) -> None:
        """Drop all that is kept for a document besides its text."""
        self.dispatcher.drop(uri)
        self.cursors.pop(uri, None)
        self.explanations.forget(uri)
        if self.engine.policy is not None:
            self.engine.policy.forget(uri)

    def engine_state_in_words(self) -> str:
        """One sentence for a person."""
        if self.engine.error is not None:
            return str(self.engine.error)
        return "The model is loaded." if self.engine.policy is not None else "The model is still loading."

    def watch_parent(self, pid: int) -> None:
        """End the server once the editor's process is gone."""
        self._stop_watching()
        self._stop_watching = parent.watch(pid, self._parent_died)

    async def close(self) -> None:
        """Stop all work, answer what is open, free the engine. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._stop_watching()
        await self.dispatcher.close()
        for task in self._background:
            task.cancel()
        await self.engine.close()

    def tell(self, kind: lsp.MessageType, words: str) -> None:
        """Show a message to the user, the same one only once a session."""
        if words not in self._told:
            self._told.add(words)
            self.protocol.notify(lsp.WINDOW_SHOW_MESSAGE, lsp.ShowMessageParams(type=kind, message=words))

    async def _register_for_configuration(self) -> None:
        registration = lsp.Registration(
            id="hearth-configuration",
            method=lsp.WORKSPACE_DID_CHANGE_CONFIGURATION,
            register_options=lsp.DidChangeConfigurationRegistrationOptions(section=SECTION),
        )
        try:
            await self.protocol.send_request_async(
                lsp.CLIENT_REGISTER_CAPABILITY, lsp.RegistrationParams(registrations=[registration])
            )
        except JsonRpcException:
            log.info("the client does not tell of changed settings")

    async def _pull_settings(self) -> None:
        params = lsp.ConfigurationParams(items=[lsp.ConfigurationItem(section=SECTION)])
        try:
            answer = await self.protocol.send_request_async(lsp.WORKSPACE_CONFIGURATION, params)
        except JsonRpcException:
            log.warning("the client did not give its settings")
            answer = None
        self._use_settings(answer[0] if isinstance(answer, list) and answer else None)

    def _use_settings(self, configured: object) -> None:
        before = self.settings
        self.settings, problems = read_settings(self.initialization_options, configured)
        for problem in problems:
            self.tell(lsp.MessageType.Warning, problem)
        if not self.settings.enabled:
            self.dispatcher.stop_warming()
        if self._loads == 0 or self.settings.engine_part() != before.engine_part():
            self._loads += 1
            self.engine.load(self.settings)

    def _engine_loading(self) -> None:
        self.status.engine(Status(busy=True, message="loading the model"))
        if self.client.progress:
            self._progress = Progress(self.protocol, f"hearth-load-{self._loads}")
            self._in_background(self._progress.begin("Hearth: loading the model"))

    def _engine_ready(self) -> None:
        log.info("the model is loaded")
        self._end_progress("ready")
        self.status.engine(None)
        warm_focused(self)

    def _engine_failed(self, error: HearthError) -> None:
        self._end_progress("failed")
        self.status.engine(Status(kind="Error", message=str(error), command="hearth.status"))
        self.tell(lsp.MessageType.Error, str(error))

    def _end_progress(self, message: str) -> None:
        if self._progress is not None:
            self._progress.end(message)
            self._progress = None

    def _parent_died(self) -> None:
        log.warning("the editor's process is gone")
        self.stopped.set()

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _version() -> str:
    try:
        return version("hearth")
    except PackageNotFoundError:  # run from a source tree
        return "0"
