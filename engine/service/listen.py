"""The daemon's listening sockets, made before it says that it is ready."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from engine.errors import SettingsError

_BACKLOG = 128


def listen_unix(path: Path) -> socket.socket:
    """A socket for this user alone. A file left there is removed: call this with the daemon's lock only.

    Raises SettingsError.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"The engine cannot listen on {path}: {os.strerror(error.errno or 0)}.",
            action="Check the folder's permissions and the room on its disk.",
        ) from error
    return listener


def listen_tcp(port: int) -> socket.socket:
    """A socket on the loopback interface; port 0 takes a free one. Raises SettingsError."""
    listener = socket.socket(socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        taken = error.errno == errno.EADDRINUSE
        why = "another program listens there" if taken else os.strerror(error.errno or 0)
        raise SettingsError(
            f"The engine cannot listen on port {port}: {why}.",
            action="Choose another port, as in `hearth serve --tcp 8080`, or 0 for any that is free.",
        ) from error
    return listener
