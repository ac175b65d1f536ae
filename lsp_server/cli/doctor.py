"""`hearth doctor`: what there is, what fits, and how to mend what does not work."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lsp_server.cli.output import print_json

if TYPE_CHECKING:
    from engine.client.service import Report


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show the machine, which models fit, and the exact fix for whatever is wrong. Changes nothing.

    Exit codes: 0 all is well; 1 something is to be mended.
    """
    from engine.client import service

    report = service.examine()
    if as_json:
        print_json({"ok": not report.troubles, **asdict(report)})
    else:
        _print(report)
    if report.troubles:
        raise typer.Exit(1)


def _print(report: Report) -> None:
    from rich.filesize import decimal

    def size(count: int | None) -> str:
        return "unknown" if count is None else decimal(count)

    machine = report.machine
    typer.echo(f"system    {machine.system}")
    typer.echo(f"cpu       {machine.cpu}; {machine.cores} cores to use, {machine.logical_cpus} logical")
    typer.echo(f"memory    {size(machine.memory_bytes)}, {size(machine.free_bytes)} free")
    for gpu in machine.gpus:
        more = f", {decimal(gpu.memory_bytes)}, driver {gpu.driver}" if gpu.driver else ""
        typer.echo(f"gpu       {gpu.name}{more} (not used yet)")
    for name, architectures in report.back_ends.items():
        typer.echo(f"back end  {name}: {', '.join(architectures)}")
    if report.kernels:
        typer.echo(f"kernels   {report.kernels[0]}; this machine also runs {', '.join(report.kernels[1:])}")
    typer.echo("\nmodels")
    for fit in report.models:
        fits = {True: "fits", False: "does not fit in the free memory", None: "fit unknown"}[fit.fits]
        typer.echo(f"  {fit.model:24} {fit.state:8} weights {decimal(fit.weights_bytes)}, {fits}")
        if fit.context_tokens:
            pool = decimal(fit.pool_tokens * fit.kv_bytes_per_token)
            typer.echo(
                f"  {'':33} window {fit.context_tokens:,} tokens, KV cache {fit.pool_tokens:,} in {pool}; "
                f"memory is free for {fit.kv_tokens:,}"
            )
    typer.echo("\nfolders")
    for name, folder in report.folders.items():
        typer.echo(f"  {name:9} {folder}")
    running = "does not run"
    if (daemon := report.daemon) is not None:
        running = f"runs (process {daemon['pid']}), {daemon['current_model']}: {daemon['engine']['state']}"
    typer.echo(f"\nengine    {running}")
    for remote in report.remotes:
        urls = ", ".join(url + (" (down)" if url in remote.reasons else "") for url in remote.urls)
        typer.echo(f"remote    {remote.name}: {remote.health}, {urls}; models {', '.join(remote.models)}")
    editors = ", ".join(f"{name} {version}" for name, version in report.editors.items())
    typer.echo(f"editors   {editors or 'neither Neovim nor VS Code is on PATH'}")
    for trouble in report.troubles:
        typer.secho(f"\nProblem: {trouble.what}", fg="red")
        typer.echo(f"What to do: {trouble.action}")
    if not report.troubles:
        typer.echo("\nAll is well.")
