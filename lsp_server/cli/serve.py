"""`hearth serve`: the engine in the foreground, for a terminal or a service manager."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from engine.errors import HearthError

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
    already; 1 could not start, or the one that runs does not listen on the port that was asked for.
    """
    from engine.client import service

    service.serve(
        partial(_tell, tcp),
        model=model,
        tcp_port=tcp,
        threads=threads,
        context_tokens=context,
        idle_minutes=idle_minutes,
    )


def _tell(tcp: int | None, running: Running) -> None:
    from engine.client import service

    if running.already:
        if tcp is not None:
            _check_port(tcp, (service.read_state() or {}).get("tcp_port"))
        typer.echo(f"The engine runs already, on {running.socket}. See `hearth status`.", err=True)
        typer.echo("It stays as it was started; for other options, `hearth stop` first.", err=True)
        return
    typer.echo(f"The engine listens on {running.socket}", err=True)
    if running.tcp_port is not None:
        typer.echo(f"and on http://127.0.0.1:{running.tcp_port}, for who shows the token in", err=True)
        typer.echo(str(running.token_file), err=True)


def _check_port(asked: int, has: int | None) -> None:
    """Raises HearthError when the daemon that runs does not listen where it was asked to; 0 is any port."""
    if has is None or asked not in (0, has):
        where = "on no port" if has is None else f"on port {has}"
        raise HearthError(
            f"The engine runs already, and listens {where}, not on {asked or 'one'}.",
            action="Run `hearth stop` first.",
        )
