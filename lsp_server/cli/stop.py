"""`hearth stop`: end the daemon in good order."""

from __future__ import annotations

import typer


def stop() -> None:
    """End the engine, once what runs has finished, and wait for that. Editors start it again by themselves.

    Exit codes: 0 it has ended, or none ran; 1 it did not end.
    """
    from engine.client import service

    typer.echo("The engine has ended." if service.stop() else "The engine does not run.")
