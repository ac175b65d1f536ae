"""`hearth models`: list, fetch, check, add and remove model files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lsp_server.cli.output import errors_as_json, print_json

if TYPE_CHECKING:
    from engine.client.models import ModelStatus

app = typer.Typer(help="List, fetch, check, add and remove models.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Names = Annotated[list[str] | None, typer.Argument(help="Models of the catalogue.", show_default=False)]


@app.command("list")
def list_models(as_json: AsJson = False) -> None:
    """Show every model of the catalogue and whether it is on this machine."""
    from engine.client import models

    with errors_as_json(as_json):
        rows = models.list_models()
    if as_json:
        print_json([_record(row) for row in rows])
    else:
        _print_table(rows)


@app.command()
def pull(names: Names = None, as_json: AsJson = False) -> None:
    """Fetch models and check their hashes; the default model when none is named.

    A pull that was stopped goes on where it was. Copies already on the machine are used, not fetched.
    """
    from engine.client import models
    from lsp_server.cli.progress import reporting

    rows = []
    with errors_as_json(as_json), _interruptible("The pull was stopped. Run it again to go on from here."):
        for name in names or [models.DEFAULT_MODEL]:
            with reporting() as report:
                rows.append(models.pull(name, report=report))
            if not as_json:
                typer.echo(f"{rows[-1].id} is ready: {rows[-1].path}")
    if as_json:
        print_json([_record(row) for row in rows])


@app.command()
def verify(names: Names = None, as_json: AsJson = False) -> None:
    """Hash model files again; all that are on this machine when none is named.

    The exit code is 1 when a model is damaged, or is named and not here.
    """
    from engine.client import models
    from lsp_server.cli.progress import reporting

    with errors_as_json(as_json), _interruptible("The check was stopped."):
        here = [row.id for row in models.list_models() if row.state in {"ready", "damaged"}]
        with reporting() as report:
            rows = [models.verify(name, report=report) for name in names or here]
    if as_json:
        print_json([_record(row) for row in rows])
    else:
        for row in rows:
            typer.echo(_verdict(row))
        if not rows:
            typer.echo("No model is on this machine. Run `hearth models pull`.")
    if any(row.state != "ready" for row in rows):
        raise typer.Exit(1)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Name to give the model.")],
    file: Annotated[Path, typer.Argument(help="Your GGUF file; it stays where it is.")],
    sha256: Annotated[str | None, typer.Option(help="What the file's SHA-256 must be.")] = None,
    as_json: AsJson = False,
) -> None:
    """Enter your own GGUF file under a name. Its hash is recorded; later changes are noticed."""
    from engine.client import models
    from lsp_server.cli.progress import reporting

    with errors_as_json(as_json), _interruptible("The model was not added."), reporting() as report:
        row = models.add(name, file, sha256, report)
    if as_json:
        print_json(_record(row))
    else:
        typer.echo(f"{row.id} is added: {row.path}\nSHA-256 {row.sha256}")


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="Model of the catalogue.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete Hearth's copy of a model, or forget one that you added. Your own files are never deleted."""
    from engine.client import models

    with errors_as_json(as_json):
        doomed = models.what_remove_deletes(name)
        if not yes:
            for path in doomed:
                typer.echo(str(path), err=True)
            question = "Delete this?" if doomed else f"Forget {name}? No file is deleted."
            if not typer.confirm(question, err=True):
                raise typer.Exit(1)
        deleted = models.remove(name)
    if as_json:
        print_json({"id": name, "deleted": [str(path) for path in deleted]})
    else:
        typer.echo("".join(f"Deleted {path}\n" for path in deleted) + f"{name} is removed.")


@contextmanager
def _interruptible(said: str) -> Iterator[None]:
    """Ctrl-C ends the command with one plain sentence and the exit code that shells expect."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\n{said}", err=True)
        raise typer.Exit(130) from None


def _record(row: ModelStatus) -> dict[str, object]:
    return {**asdict(row), "state": row.state.value}


def _verdict(row: ModelStatus) -> str:
    if row.state == "ready":
        return f"{row.id}: whole ({row.path})"
    mend = "" if row.added_by_user else f" Run `hearth models pull {row.id}`."
    return f"{row.id}: {row.state.value}{f', {row.detail}' if row.detail else ''}.{mend}"


def _print_table(rows: list[ModelStatus]) -> None:
    from rich.console import Console
    from rich.filesize import decimal
    from rich.table import Table
    from rich.text import Text

    colours = {"ready": "green", "partial": "yellow", "absent": "dim", "damaged": "red"}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("model", "licence", "size", "state", "path"):
        table.add_column(column, overflow="fold", no_wrap=column == "model")
    for row in rows:
        state = f"{row.state.value} ({row.detail})" if row.detail else row.state.value
        table.add_row(
            Text(f"{row.id} *" if row.default else row.id),
            Text(row.licence or "unknown"),
            decimal(row.bytes),
            Text(state, style=colours[row.state.value]),
            Text(row.path),
        )
    # A pipe has no width: rows there are lines for other programs, not to be folded.
    Console(highlight=False, width=None if sys.stdout.isatty() else 10_000).print(table)
    typer.echo("* the default")
