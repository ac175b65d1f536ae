"""Where the daemon's socket, locks and state file are; the one folder that both sides must trust."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from engine import paths
from engine.errors import SettingsError

# Size of sockaddr_un.sun_path less its final zero: unix(7) on Linux, unix(4) on macOS and the BSDs.
_MAX_SOCKET_BYTES = 107 if sys.platform == "linux" else 103
_SOCKET_NAME = "hearth.sock"


@dataclass(frozen=True, slots=True)
class Places:
    """Files of the daemon.

    socket: where it listens; in a folder of its own when the path would be too long for a socket.
    lock: held by the daemon for as long as it lives.
    starting: held while a process decides whether it becomes the daemon, until it listens.
    state: who runs, for people; nothing is decided by it.
    """

    folder: Path
    socket: Path
    lock: Path
    starting: Path
    state: Path


def find_places(*, create: bool = True) -> Places:
    """The places, checked: the folders belong to this user alone.

    Raises SettingsError when they do not, or cannot be made.
    """
    folder = paths.runtime_dir(create=create)
    check_private(folder)
    path = folder / _SOCKET_NAME
    if len(os.fsencode(path)) > _MAX_SOCKET_BYTES:
        # Not tempfile.gettempdir(): that follows the environment, in which the two sides may differ.
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        short = Path("/tmp") / f"hearth-{os.getuid()}-{digest}"  # noqa: S108 - checked below
        if create:
            paths.make_private(short)
        check_private(short)
        path = short / _SOCKET_NAME
    return Places(folder, path, folder / "daemon.lock", folder / "starting.lock", folder / "daemon.json")


def check_private(folder: Path) -> None:
    """Raise SettingsError unless the folder is absent, or a real one that only this user can enter."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise SettingsError(
            f"Hearth cannot look at its folder {folder}: {error.strerror}.",
            action=f"Check its permissions, or set {paths.HOME_VARIABLE} to another folder.",
        ) from error
    theirs = found.st_uid != os.getuid()
    if not stat.S_ISDIR(found.st_mode) or theirs:
        what = "is not a folder" if not stat.S_ISDIR(found.st_mode) else "belongs to another user"
        raise SettingsError(
            f"{folder} {what}.",
            meaning="Hearth does not use it, since its owner could answer in the engine's place.",
            action=f"Run: {'sudo ' * theirs}mv '{folder}' '{folder}.old'; "
            f"or set {paths.HOME_VARIABLE} to a folder of your own.",
        )
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise SettingsError(
            f"The permissions of your folder {folder} keep Hearth from using it.",
            action=f"Run: chmod 700 '{folder}'",
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise SettingsError(
            f"Other users may enter {folder}.",
            meaning="Hearth does not use it, since others could answer in the engine's place.",
            action=f"Run: chmod 700 '{folder}'",
        )


def answers(path: Path) -> bool:
    """Whether a process listens on the socket; a busy one counts too."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:  # its backlog is full
            return True
        except OSError:
            return False
    return True
