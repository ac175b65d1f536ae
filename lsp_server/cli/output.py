"""What the commands print: results on stdout, everything said along the way on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from engine.errors import HearthError


def version_text() -> str:
    """Version of the installed distribution."""
    import importlib.metadata

    try:
        return importlib.metadata.version("hearth")
    except importlib.metadata.PackageNotFoundError:
        return "(run from its source folder, not installed)"


def print_json(value: object) -> None:
    """One JSON value on stdout."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show_error(error: HearthError) -> None:
    """Tell an error to a person: what happened, what it means, what to do."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("Error: ", "bold red"), error.what))
    if error.meaning:
        console.print(Text(error.meaning))
    if error.action:
        console.print(Text.assemble(("What to do: ", "bold"), error.action))


@contextmanager
def errors_as_json(wanted: bool) -> Iterator[None]:
    """With `--json` a failure is a JSON object on stdout, and the exit code is still 1."""
    try:
        yield
    except HearthError as error:
        if not wanted:
            raise
        told = {"code": error.code, "what": error.what, "meaning": error.meaning, "action": error.action}
        print_json({"error": told})
        raise typer.Exit(1) from error
