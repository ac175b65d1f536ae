"""The token that programs show on the loopback port, where any user of the machine could knock."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from engine import paths
from engine.errors import SettingsError

FILE_NAME = "token"


def token_file() -> Path:
    """Where the token is kept; it stays the same, so that tools can be told once. Raises SettingsError."""
    return paths.state_dir() / FILE_NAME


def check_token() -> None:
    """Raise SettingsError when there is a token that others know."""
    path = paths.state_dir(create=False) / FILE_NAME
    try:
        _refuse_shared(path, path.lstat())
    except (FileNotFoundError, PermissionError):
        return


def read_or_make_token() -> str:
    """The token, made at the first use. Raises SettingsError when its file is not the user's alone."""
    path = token_file()
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "r+") as opened:
            _refuse_shared(path, os.fstat(file))
            token = opened.read().strip()
            if not token:
                token = secrets.token_urlsafe(32)
                opened.seek(0)
                opened.write(token + "\n")
            return token
    except OSError as error:
        raise SettingsError(
            f"The token in {path} cannot be read or made: {error.strerror}.", action="Check its permissions."
        ) from error


def _refuse_shared(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise SettingsError(
            f"Other users can read or change the token in {path}.",
            meaning="Whoever knows it can use the engine.",
            action=f"Run: rm -f '{path}'; a new one is made at the next start.",
        )
