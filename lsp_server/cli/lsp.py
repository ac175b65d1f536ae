"""`hearth lsp`: the language server on stdin and stdout."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from engine.client import EngineClient
    from lsp_server.settings import Settings


class LogLevel(StrEnum):
    """How much the log file holds."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def lsp(
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="How much the log file holds; never source text.")
    ] = LogLevel.INFO,
    stdio: Annotated[  # noqa: ARG001 - editors pass it out of habit; there is no other transport
        bool, typer.Option("--stdio", hidden=True)
    ] = True,
) -> None:
    """Serve an editor on stdin and stdout (editors start this; you need not)."""
    # Here, so that the other commands do not pay for loading the protocol's types.
    from engine.paths import logs_dir
    from lsp_server.inline_completion.policy import CompletionPolicy
    from lsp_server.server import HearthServer
    from lsp_server.transport.logs import start_logging
    from lsp_server.transport.stdio import run_stdio

    log_file = start_logging(logs_dir(), log_level)
    run_stdio(HearthServer(open_engine, CompletionPolicy, log_file))


async def open_engine(settings: Settings) -> EngineClient:
    """The user's one engine, started if it does not run, with the model that the settings name.

    Raises HearthError: it cannot start, there is no such model, or not on this machine yet.
    """
    from engine.client.connect import connect

    return await connect(settings.model, threads=settings.threads)
