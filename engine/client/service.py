"""The daemon, for the commands that people run: serve, status, stop, logs, doctor.

These functions block; `engine.client.connect` is what programs use.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import paths
from engine.client.http import ConnectionLost, NotListening, exchange
from engine.client.link import ANSWER_SECONDS, ask_to_stop
from engine.errors import EngineUnavailable, SettingsError
from engine.service.lock import Lock
from engine.service.places import Places, find_places
from engine.service.protocol import STATE

if TYPE_CHECKING:
    from engine.service.doctor import Report as Report

STOP_SECONDS = 60.0
"""How long `stop` waits beyond the daemon's own limit for running requests."""


@dataclass(frozen=True, slots=True)
class Running:
    """Where a daemon listens.

    tcp_port: on the loopback interface, with the token that is in `token_file`; None without.
    already: another process was the daemon before.
    """

    socket: str
    tcp_port: int | None
    token_file: Path
    already: bool


def serve(on_listening: Callable[[Running], None], **given: object) -> None:
    """Be the daemon in this process, until it is told to end; return at once when one runs already.

    given: fields of `engine.service.settings.ServiceSettings`; None for those not said.
    Raises HearthError when it cannot start.
    """
    from engine.service import daemon
    from engine.service.settings import read_settings
    from engine.service.token import token_file

    settings = read_settings(given)
    daemon.run(
        settings,
        on_listening=lambda at: on_listening(Running(at.socket, at.tcp_port, token_file(), at.already_ran)),
    )


def read_state() -> dict[str, Any] | None:
    """What the daemon says of itself; None when none runs. Raises HearthError when it does not answer."""
    places = find_places(create=False)

    async def ask() -> dict[str, Any] | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS), exchange(places.socket, "GET", STATE) as response:
                state: dict[str, Any] = json.loads(await response.body())
                return state
        except (NotListening, ConnectionLost):
            return None

    try:
        return asyncio.run(ask())
    except (TimeoutError, ValueError):
        raise silent(places) from None


def stop(seconds: float = STOP_SECONDS) -> bool:
    """Have the daemon finish what runs and end; returns when it has, with whether there was one.

    Raises EngineUnavailable when it does not answer, or has not ended in time.
    """
    places = find_places(create=False)
    state = read_state()
    if state is None and not is_locked(places):
        return False
    asyncio.run(ask_to_stop(places.socket))
    # The kernel gives us the lock when the daemon's process is gone.
    ended = threading.Thread(target=_wait_for_end, args=(places,), daemon=True)
    ended.start()
    ended.join(seconds)
    if ended.is_alive():
        raise silent(places)
    return True


def log_files() -> tuple[Path, Path]:
    """The daemon's log, and what a crash of its interpreter left."""
    folder = paths.logs_dir(create=False)
    return folder / "daemon.log", folder / "daemon.err"


def examine() -> Report:
    """What `hearth doctor` finds."""
    from engine.service import doctor

    return doctor.examine()


def is_locked(places: Places) -> bool:
    """Whether a process is the daemon, perhaps on its way in or out. Raises SettingsError."""
    if not places.lock.exists():
        return False
    try:
        lock = Lock(places.lock)
    except OSError as error:
        raise SettingsError(
            f"The lock file {places.lock} cannot be opened: {error.strerror}.",
            action=f"Run: rm -f '{places.lock}'",
        ) from error
    with lock:
        return not lock.try_take()


def silent(places: Places) -> EngineUnavailable:
    """A daemon that is there and does not do what it is asked."""
    try:
        end_it = f"kill -9 {int(json.loads(places.state.read_text(encoding='utf-8'))['pid'])}"
    except (OSError, ValueError, LookupError, TypeError):
        end_it = f"fuser -k '{places.lock}'"
    return EngineUnavailable(
        f"The engine does not answer on {places.socket}, and has not ended.",
        meaning="It is hung, or still finishing a long request.",
        action=f"Wait, or end it: {end_it}",
    )


def _wait_for_end(places: Places) -> None:
    with Lock(places.lock) as lock:
        lock.take()
