"""`hearth status`: what the daemon is doing."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lsp_server.cli.output import errors_as_json, print_json

NOT_RUNNING = 3  # as in the init scripts of the Linux Standard Base


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show whether the engine runs, with which model, and what it does.

    Exit codes: 0 it runs; 1 it does not answer; 3 it does not run.
    """
    from engine.client import service

    with errors_as_json(as_json):
        state = service.read_state()
    if as_json:
        print_json({"running": state is not None, **(state or {})})
    elif state is None:
        typer.echo("The engine does not run. Editors start it when they need it.")
    else:
        typer.echo("\n".join(_lines(state)))
    if state is None:
        raise typer.Exit(NOT_RUNNING)


def _lines(state: dict[str, Any]) -> list[str]:
    from rich.filesize import decimal

    engine, requests = state["engine"], state["requests"]
    served = requests["requests"] - requests["running"] - requests["waiting"]
    lines = [
        f"engine    process {state['pid']}, version {state['version']}, since {_span(state['uptime_s'])}",
        f"model     {state['current_model'] or 'none of this machine'}: {engine['state']}",
    ]
    if engine["message"]:
        lines.append(f"          {engine['message']}")
    if engine["context_tokens"]:
        lines.append(f"          window of {engine['context_tokens']} tokens")
        lines.append(f"          {engine['threads']} threads, {engine['kernels']}")
    if engine["decode_tps"]:
        speeds = f"{engine['prefill_tps']:.0f} tokens/s prefill, {engine['decode_tps']:.1f} tokens/s decode"
        lines.append(f"speed     {speeds}")
    if state["memory_bytes"] is not None:
        lines.append(f"memory    {decimal(state['memory_bytes'])}")
    lines.append(f"requests  {served} done, {requests['running']} running, {requests['waiting']} waiting")
    if (cache := state["cache"]) is not None:
        lines += _cache_lines(cache)
    for remote in state.get("remotes", []):  # one that was started before has none
        lines += _remote_lines(remote)
    idle = state["idle_minutes"]
    lines.append(f"idle      {f'the model is let go after {idle:g} min' if idle else 'the model is kept'}")
    lines.append(f"socket    {state['socket']}")
    if state["tcp_port"] is not None:
        lines.append(f"tcp       http://127.0.0.1:{state['tcp_port']}")
    lines.append(f"log       {state['log']}")
    return lines


def _cache_lines(cache: dict[str, Any]) -> list[str]:
    from rich.filesize import decimal

    disk = cache["disk"]
    used = cache["kv_tokens"] - cache["kv_free_tokens"]
    found = cache["memory_tokens"] + cache["disk_tokens"]
    lines = [
        f"cache     {used} of {cache['kv_tokens']} tokens in memory; {found} prompt tokens were found in it,"
        f" {cache['prefilled_tokens']} computed",
        f"disk      {disk['state']}, {decimal(disk['bytes'])}",
    ]
    return [*lines, f"          {disk['message']}"] if disk["message"] else lines


def _remote_lines(remote: dict[str, Any]) -> list[str]:
    counts = remote["counts"]
    models = ", ".join(remote["models"])
    lines = [f"remote    {remote['name']}: {remote['health']}; {models}"]
    lines += [f"          {url}: {reason}" for url, reason in remote["reasons"].items()]
    if not remote["reasons"]:
        lines += [f"          {problem}" for problem in remote["problems"].values()]
    lines.append(
        f"          {counts['requests']} requests, {counts['running']} running, {counts['failed']} failed, "
        f"{counts['fallbacks']} answered by {remote['fallback'] or 'no fallback'}"
    )
    return lines


def _span(seconds: float) -> str:
    minutes, hours = seconds // 60, seconds // 3600
    if hours >= 48:
        return f"{hours // 24:.0f} days"
    if minutes >= 120:
        return f"{hours:.0f} h"
    return f"{minutes:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
