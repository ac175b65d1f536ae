"""`hearth demo`: complete holes in the sample projects through the real server, as an editor would."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

SERVER = (sys.executable, "-m", "lsp_server", "lsp")


def demo(
    samples: Annotated[
        Path | None,
        typer.Option(help="Folder of the sample projects.", show_default="those that come with Hearth"),
    ] = None,
) -> None:
    """Complete holes in small sample projects, and show each as you would see it in an editor."""
    import asyncio

    from rich.console import Console

    console = Console(highlight=False)
    missed = asyncio.run(run(console, SERVER, samples))
    if missed:
        typer.echo(f"{missed} of the places got no suggestion.", err=True)
        raise typer.Exit(1)


async def run(console: Console, command: tuple[str, ...], samples: Path | None = None) -> int:
    """Run the demo against the server that `command` starts; how many places got no suggestion.

    Raises HearthError when the samples or the server cannot be used.
    """
    import time

    from lsp_server.demo.holes import default_folder, load_holes
    from lsp_server.demo.screen import show_hole, show_summary
    from lsp_server.demo.session import Nothing, open_session

    folder = (samples or default_folder()).resolve()
    holes = load_holes(folder)
    started = time.perf_counter()
    console.print("Starting the server and loading the model ...")
    async with open_session(command, folder) as session:
        console.print(f"Ready after {time.perf_counter() - started:.1f} s. Suggestions are set in « ».")
        rows = []
        for hole in holes:
            rows.append((hole, await session.complete(hole)))
            show_hole(console, *rows[-1])
    show_summary(console, rows)
    return sum(isinstance(answer, Nothing) for _, answer in rows)
