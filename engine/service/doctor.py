"""What `hearth doctor` looks at: the machine, what fits on it, the folders, the daemon, remotes, the editors.

Nothing here changes anything. Of remotes only their lists of models are asked for.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine import paths
from engine.backends import llama_cpp
from engine.backends.native import DEFAULT_CONTEXT, architectures, kv_bytes_per_token, open_gguf
from engine.backends.openai.circuit import Health
from engine.backends.openai.remote import Remote
from engine.backends.openai.settings import RemoteSettings
from engine.catalogue.entries import DEFAULT_MODEL
from engine.catalogue.lookup import all_entries
from engine.catalogue.report import size_text
from engine.catalogue.status import ModelState, ModelStatus, status_of
from engine.client import service
from engine.errors import HearthError, SettingsError
from engine.service.machine import Machine, look, run_tool
from engine.service.places import find_places
from engine.service.remotes import RemoteState, state_of
from engine.service.settings import ServiceSettings, read_settings, settings_file

_LOW_DISK_BYTES = 1 << 30

# The oldest versions that the clients of this repository work in; see docs/editors.md.
_EDITORS = {
    "nvim": ("Neovim", (0, 10)),
    "code": ("VS Code", (1, 104)),
    "codium": ("VSCodium", (1, 104)),
    "code-server": ("code-server", (4, 104)),
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that does not work, and the command or setting that mends it."""

    what: str
    action: str


@dataclass(frozen=True, slots=True)
class Fit:
    """A model of the catalogue on this machine.

    state: as in `hearth models list`.
    weights_bytes: in memory, once loaded.
    kv_bytes_per_token: of an F16 cache; 0 when the file is not here to tell.
    kv_tokens: how many tokens the free memory holds beside the weights; 0 when that is not known.
    fits: None when it is not known.
    """

    model: str
    state: str
    weights_bytes: int
    kv_bytes_per_token: int = 0
    kv_tokens: int = 0
    fits: bool | None = None


@dataclass(slots=True)
class Report:
    """What was found; `troubles` is empty when all is well."""

    machine: Machine
    back_ends: dict[str, list[str]] = field(default_factory=dict)
    kernels: list[str] = field(default_factory=list)
    models: list[Fit] = field(default_factory=list)
    folders: dict[str, str] = field(default_factory=dict)
    daemon: dict[str, Any] | None = None
    remotes: list[RemoteState] = field(default_factory=list)
    editors: dict[str, str] = field(default_factory=dict)
    troubles: list[Trouble] = field(default_factory=list)


def examine() -> Report:
    """Look at everything; whatever is wrong becomes a Trouble, nothing is raised."""
    report = Report(look())
    for examination in (_back_ends, _models, _folders, _daemon, _remotes, _editors):
        try:
            examination(report)
        except HearthError as error:
            _note(report, error)
    return report


def _note(report: Report, error: HearthError) -> None:
    trouble = Trouble(" ".join(filter(None, (error.what, error.meaning))), error.action)
    if trouble not in report.troubles:
        report.troubles.append(trouble)


def _back_ends(report: Report) -> None:
    if llama_cpp.installed():
        report.back_ends["llama_cpp"] = ["any architecture of its own"]
    report.back_ends["native"] = architectures()
    from engine import _native

    report.kernels = list(_native.isas())


def _models(report: Report) -> None:
    free = report.machine.free_bytes
    # Where a remote answers by default, a model of this machine is a choice, not a need.
    needed = DEFAULT_MODEL if _settings().remote_model is None else ""
    for entry in all_entries():
        row = status_of(entry)
        fit = Fit(row.id, row.state.value, row.bytes)
        try:
            fit = _fit(row, free)
        except HearthError as error:
            _note(report, error)
        report.models.append(fit)
        if row.id == needed and row.state != ModelState.READY:
            report.troubles.append(
                Trouble(
                    f"The default model {row.id} is not ready ({row.state.value}).", "Run: hearth models pull"
                )
            )
        if row.id == needed and fit.fits is False and free is not None:
            report.troubles.append(
                Trouble(
                    f"The default model {row.id} needs {size_text(row.bytes)} of memory; "
                    f"{size_text(free)} are free.",
                    "Close other programs, or set hearth.model to a smaller one of `hearth models list`.",
                )
            )


def _fit(row: ModelStatus, free: int | None) -> Fit:
    per_token = 0
    if row.state == ModelState.READY:
        gguf = open_gguf(Path(row.path))
        layers = gguf.get(f"{gguf.get('general.architecture')}.block_count")
        per_token = kv_bytes_per_token(gguf, layers) if isinstance(layers, int) else 0
    if free is None:
        return Fit(row.id, row.state.value, row.bytes, per_token)
    left = free - row.bytes
    tokens = max(0, left) // per_token if per_token else 0
    fits = left > DEFAULT_CONTEXT * per_token
    return Fit(row.id, row.state.value, row.bytes, per_token, tokens, fits)


def _folders(report: Report) -> None:
    makers: dict[str, Callable[..., Path]] = {
        "models": paths.models_dir,
        "cache": paths.cache_dir,
        "state": paths.state_dir,
        "logs": paths.logs_dir,
        "socket": paths.runtime_dir,
        "settings": paths.config_dir,
    }
    for name, make in makers.items():
        folder = make(create=False)
        report.folders[name] = str(folder)
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        if not os.access(nearest, os.W_OK | os.X_OK):
            report.troubles.append(
                Trouble(
                    f"The folder {folder} cannot be written to.",
                    f"Run: chmod u+rwx '{nearest}'; or set {paths.HOME_VARIABLE} to a folder of your own.",
                )
            )
        elif (room := shutil.disk_usage(nearest).free) < _LOW_DISK_BYTES and name in ("models", "cache"):
            report.troubles.append(
                Trouble(
                    f"Little room is left on the disk of {folder}: {size_text(room)}.",
                    f"Free some, or set {paths.HOME_VARIABLE} to a folder on a larger disk.",
                )
            )


def _daemon(report: Report) -> None:
    report.daemon = service.read_state()
    places = find_places(create=False)
    if report.daemon is None and service.is_locked(places):
        raise service.silent(places)


def _remotes(report: Report) -> None:
    settings = read_settings({})
    report.remotes = asyncio.run(_look_at(settings.remote))
    states = {entry.id: status_of(entry).state for entry in all_entries()}
    for remote in report.remotes:
        if states.get(remote.fallback or "", ModelState.READY) != ModelState.READY:
            report.troubles.append(
                Trouble(
                    f"The fallback {remote.fallback} of the remote {remote.name} is not on this machine.",
                    f"Run: hearth models pull {remote.fallback}",
                )
            )
        if remote.health != Health.UP:
            for url, reason in remote.reasons.items():
                report.troubles.append(Trouble(f"{reason} ({url})", _remedy(remote)))
            continue
        for problem in remote.problems.values():
            report.troubles.append(Trouble(problem, f"Mend `models` of {remote.name} in {settings_file()}."))


def _remedy(remote: RemoteState) -> str:
    if remote.health == Health.REFUSED:
        return f"Mend the settings of {remote.name} in {settings_file()}, then run `hearth stop`."
    return f"Start the server, or mend `url` of {remote.name} in {settings_file()}."


async def _look_at(remotes: list[RemoteSettings]) -> list[RemoteState]:
    """Each remote, asked now: whether it answers, and for its models."""

    async def look_at(settings: RemoteSettings) -> RemoteState:
        remote = Remote(settings)
        try:
            await remote.connection.look()
            return state_of(remote)
        finally:
            await remote.close()

    return list(await asyncio.gather(*(look_at(settings) for settings in remotes)))


def _settings() -> ServiceSettings:
    """Those in force; defaults where the file is wrong, which is told with the remotes."""
    try:
        return read_settings({})
    except SettingsError:
        return ServiceSettings()


def _editors(report: Report) -> None:
    for program, (name, oldest) in _EDITORS.items():
        if shutil.which(program) is None:
            continue
        printed = run_tool([program, "--version"]) or ""
        found = re.search(r"(\d+)\.(\d+)(?:\.\d+)?", printed)
        report.editors[name] = found[0] if found else "version unknown"
        if found and (int(found[1]), int(found[2])) < oldest:
            least = ".".join(map(str, oldest))
            report.troubles.append(
                Trouble(
                    f"{name} {found[0]} is too old for Hearth's plugin.", f"Install {name} {least} or newer."
                )
            )
