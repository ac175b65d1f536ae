"""The `hearth` command line.

Each group of commands is a module beside this one and one line in `_build`. Such a module imports only
typer and the standard library at its top; what is heavy is imported inside the commands, so that
`hearth --help` and an editor's start of the server stay quick.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from engine.errors import HearthError
from lsp_server.cli import demo, doctor, logs, lsp, models, serve, status, stop
from lsp_server.cli.output import show_error, version_text


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hearth {version_text()}")
        raise typer.Exit


def _hearth(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Hearth: a coding assistant that runs wholly on your own machine."""


def _build() -> typer.Typer:
    # Plain help texts: loading rich for them would double the time of `hearth --help`.
    app = typer.Typer(
        name="hearth", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    app.callback()(_hearth)
    app.command("lsp")(lsp.lsp)
    app.command("demo")(demo.demo)
    app.command("serve")(serve.serve)
    app.command("status")(status.status)
    app.command("stop")(stop.stop)
    app.command("logs")(logs.logs)
    app.command("doctor")(doctor.doctor)
    app.add_typer(models.app, name="models")
    return app


app = _build()


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed (told on stderr), 2 wrong usage, 130 interrupted;
    `hearth status` says 3 when nothing runs."""
    try:
        app()
    except HearthError as error:
        show_error(error)
        sys.exit(1)
