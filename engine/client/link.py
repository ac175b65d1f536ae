"""The way to the user's daemon: find it, start it, replace an older one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.client.http import ConnectionLost, NotListening, exchange
from engine.client.start import COMMAND, StartLimit, start_daemon
from engine.errors import EngineUnavailable
from engine.service.places import find_places
from engine.service.protocol import HELLO, PROTOCOL, STOP

ANSWER_SECONDS = 30.0
"""A daemon that does not answer a greeting for so long is hung, or the machine is."""


class DaemonLink:
    """Knows how to reach the daemon; starts it when it is not there.

    arguments: for a daemon that has to be started.
    command: what starts it.
    Raises SettingsError when the folder of the socket cannot be trusted.
    """

    def __init__(
        self,
        arguments: Sequence[str] = (),
        *,
        command: Sequence[str] = COMMAND,
        limit: StartLimit | None = None,
    ) -> None:
        self._places = find_places()
        self._arguments = arguments
        self._command = command
        self._limit = limit or StartLimit()
        self._starting = asyncio.Lock()

    @property
    def socket(self) -> Path:
        """Where the daemon listens, if it runs."""
        return self._places.socket

    async def ensure(self) -> None:
        """Return when a daemon of our protocol answers, starting or replacing one where needed.

        Raises HearthError when there cannot be one.
        """
        async with self._starting:
            greeting = await greet(self.socket)
            if greeting is not None and greeting["protocol"] < PROTOCOL:
                # It drains and ends; the new one waits for its lock. What it cached on disk stays.
                await ask_to_stop(self.socket)
                greeting = None
            if greeting is None:
                self._limit.take()
                await start_daemon(self._places, self._arguments, self._command)
                greeting = await greet(self.socket)
            if greeting is None:
                raise EngineUnavailable(
                    "The engine ended as soon as it had started.", action="Run `hearth logs` to see why."
                )
            if greeting["protocol"] != PROTOCOL:
                raise EngineUnavailable(
                    f"The engine that runs is of another version of Hearth ({greeting.get('version')}).",
                    meaning="This editor still runs the version before.",
                    action="Restart the editor; or run `hearth stop`.",
                )


async def greet(socket: Path) -> dict[str, Any] | None:
    """What the daemon says of itself, protocol, version and pid; None when there is none.

    Raises EngineUnavailable when it does not answer.
    """
    try:
        async with asyncio.timeout(ANSWER_SECONDS), exchange(socket, "GET", HELLO) as response:
            greeting = json.loads(await response.body())
    except (NotListening, ConnectionLost):
        return None
    except TimeoutError:
        raise _silent(socket) from None
    except ValueError:
        greeting = None
    if not isinstance(greeting, dict) or not isinstance(greeting.get("protocol"), int):
        raise EngineUnavailable(f"What answers on {socket} is not Hearth.", action="Run `hearth doctor`.")
    return greeting


async def ask_to_stop(socket: Path) -> bool:
    """Have the daemon drain and end; returns at once, with whether there was one."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS), exchange(socket, "POST", STOP) as response:
            await response.body()
    except (NotListening, ConnectionLost):
        return False
    except TimeoutError:
        raise _silent(socket) from None
    return True


def _silent(socket: Path) -> EngineUnavailable:
    return EngineUnavailable(
        f"The engine does not answer on {socket}.",
        action="Run `hearth doctor`: it says which process that is.",
    )
