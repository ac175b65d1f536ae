"""`hearth serve`: the engine in the foreground, for a terminal or a service manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from engine.client.service import Running


def serve(
    model: Annotated[
        str | None, typer.Option(help="Name of `hearth models list`, or a GGUF file.", show_default=False)
    ] = None,
    tcp: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Listen on this loopback port too; 0 takes a free one.", show_default=False
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=0, max=1024, help="Worker threads; 0 is one for each core.", show_default=False),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(min=0, help="Longest prompt and answer together, in tokens.", show_default=False),
    ] = None,
    idle_minutes: Annotated[
        float | None,
        typer.Option(
            min=0, help="Let the model go after so long without a request; 0 never.", show_default=False
        ),
    ] = None,
) -> None:
    """Run the engine that all editors and tools share, until Ctrl-C or `hearth stop`.

    Editors start it by themselves; this is for watching it, for other tools, and for service managers. What
    is not said here comes from the file service.toml. Exit codes: 0 served to the end, or another one runs
    already; 1 could not start.
    """
    from engine.client import service

    service.serve(
        _tell, model=model, tcp_port=tcp, threads=threads, context_tokens=context, idle_minutes=idle_minutes
    )


def _tell(running: Running) -> None:
    if running.already:
        typer.echo(f"The engine runs already, on {running.socket}. See `hearth status`.", err=True)
        typer.echo("It stays as it was started; for other options, `hearth stop` first.", err=True)
        return
    typer.echo(f"The engine listens on {running.socket}", err=True)
    if running.tcp_port is not None:
        typer.echo(f"and on http://127.0.0.1:{running.tcp_port}, for who shows the token in", err=True)
        typer.echo(str(running.token_file), err=True)
