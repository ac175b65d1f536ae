"""What `hearth doctor` looks at: the machine, what fits on it, the folders, the daemon, remotes, the editors.

Nothing here changes anything. Of remotes only their lists of models are asked for.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine import paths
from engine.backends import llama_cpp
from engine.backends.choose import is_encoder
from engine.backends.native import architectures, kv_bytes_per_token, open_gguf, window
from engine.backends.openai.circuit import Health
from engine.backends.openai.remote import Remote
from engine.backends.openai.settings import RemoteSettings
from engine.catalogue.lookup import all_entries, resolve
from engine.catalogue.report import size_text
from engine.catalogue.status import ModelState, ModelStatus, status_of
from engine.client import service
from engine.errors import HearthError
from engine.generation.disk_tier import kv_folder
from engine.service.facts import installed_version
from engine.service.folders import check_folder, room
from engine.service.listen import listen_tcp
from engine.service.machine import Machine, look, run_tool
from engine.service.places import check_private, find_places
from engine.service.remotes import RemoteState, state_of
from engine.service.settings import ServiceSettings, read_settings, settings_file
from engine.service.token import check_token

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
    context_tokens, pool_tokens: what the engine takes with these settings: the longest prompt and answer
        together, and the KV cache that requests share; 0 when the file is not here to tell.
    fits: whether weights and window do; None when it is not known.
    """

    model: str
    state: str
    weights_bytes: int
    kv_bytes_per_token: int = 0
    kv_tokens: int = 0
    context_tokens: int = 0
    pool_tokens: int = 0
    fits: bool | None = None


@dataclass(slots=True)
class Report:
    """What was found; `troubles` is empty when all is well.

    settings: of `service.toml`, or the defaults where it is wrong, which is a trouble.
    """

    machine: Machine
    settings: dict[str, Any] = field(default_factory=dict)
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
    for examination in (_settings, _folders, _back_ends, _models, _daemon, _remotes, _editors):
        try:
            examination(report)
        except HearthError as error:
            _note(report, error)
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            report.troubles.append(
                Trouble(
                    f"Something could not be looked at: {error.strerror}{where}.", "Check its permissions."
                )
            )
    return report


def _note(report: Report, error: HearthError) -> None:
    trouble = Trouble(" ".join(filter(None, (error.what, error.meaning))), error.action)
    if trouble not in report.troubles:
        report.troubles.append(trouble)


def _settings(report: Report) -> None:
    report.settings = ServiceSettings().model_dump()
    report.settings = read_settings({}).model_dump()


def _back_ends(report: Report) -> None:
    if llama_cpp.installed():
        report.back_ends["llama_cpp"] = ["any architecture of its own"]
    report.back_ends["native"] = architectures()
    from engine import _native

    report.kernels = list(_native.isas())


def _models(report: Report) -> None:
    free, needed = report.machine.free_bytes, report.settings["model"]
    remote = any(needed in remote["models"] for remote in report.settings["remote"])
    # Where a remote answers by default, a model of this machine is a choice, not a need.
    if not remote and needed not in [entry.id for entry in all_entries()]:
        try:
            open_gguf(resolve(needed))
        except HearthError as error:
            _note(report, error)
    for entry in all_entries():
        row = status_of(entry)
        fit = Fit(row.id, row.state.value, row.bytes)
        try:
            fit = _fit(row, free, report.settings["context_tokens"])
        except HearthError as error:
            _note(report, error)
        report.models.append(fit)
        if row.id == needed and row.state != ModelState.READY:
            report.troubles.append(
                Trouble(
                    f"The default model {row.id} is not ready ({row.detail or row.state.value}).",
                    f"Run: hearth models pull {row.id}",
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


def _fit(row: ModelStatus, free: int | None, context_tokens: int) -> Fit:
    per_token = context = pool = 0
    if row.state == ModelState.READY:
        gguf = open_gguf(Path(row.path))
        architecture = gguf.get("general.architecture")
        layers, trained = (gguf.get(f"{architecture}.{key}") for key in ("block_count", "context_length"))
        if isinstance(layers, int) and isinstance(trained, int) and not is_encoder(gguf):
            per_token = kv_bytes_per_token(gguf, layers)
            context, pool = window(per_token, trained, context_tokens or None)
    if free is None:
        return Fit(row.id, row.state.value, row.bytes, per_token, 0, context, pool)
    left = free - row.bytes
    tokens = max(0, left) // per_token if per_token else 0
    fits = left > context * per_token
    return Fit(row.id, row.state.value, row.bytes, per_token, tokens, context, pool, fits)


def _folders(report: Report) -> None:
    makers: dict[str, Callable[..., Path]] = {
        "models": paths.models_dir,
        "cache": paths.cache_dir,
        "kv cache": lambda *, create: Path(report.settings["cache"]["folder"] or kv_folder(create=create)),
        "state": paths.state_dir,
        "logs": paths.logs_dir,
        "socket": paths.runtime_dir,
        "settings": paths.config_dir,
    }
    for name, make in makers.items():
        folder = make(create=False)
        report.folders[name] = str(folder)
        try:
            if name == "socket":
                check_private(folder)
            check_folder(folder, writes=name != "settings", private=name == "kv cache")
        except HearthError as error:
            _note(report, error)
            continue
        if (free := room(folder)) < _LOW_DISK_BYTES and name in ("models", "kv cache"):
            instead = "cache.folder in service.toml" if name == "kv cache" else paths.HOME_VARIABLE
            report.troubles.append(
                Trouble(
                    f"Little room is left on the disk of {folder}: {size_text(free)}.",
                    f"Free some, or set {instead} to a folder on a larger disk.",
                )
            )
    check_token()


def _daemon(report: Report) -> None:
    report.daemon = daemon = service.read_state()
    places = find_places(create=False)
    if daemon is None:
        if service.is_locked(places):
            raise service.silent(places)
        if port := report.settings["tcp_port"]:
            listen_tcp(port).close()
        return
    if (runs := daemon["version"]) != (here := installed_version()):
        report.troubles.append(
            Trouble(
                f"The engine that runs is version {runs}; {here} is installed.",
                "Run: hearth stop; it is started again by itself.",
            )
        )
    if daemon["engine"]["state"] == "failed":
        report.troubles.append(
            Trouble(
                f"The engine runs without a model. {daemon['engine']['message']}",
                "Mend that, or choose another model; the next request tries again.",
            )
        )
    if (message := ((daemon["cache"] or {}).get("disk") or {}).get("message")) is not None and message:
        report.troubles.append(
            Trouble(message, f"Look at the disk and the permissions of {report.folders['kv cache']}.")
        )


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
