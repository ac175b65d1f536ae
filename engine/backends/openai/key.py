"""The key of a remote: settings say where it is, never what it is."""

from __future__ import annotations

import os
import re

from engine.errors import SettingsError

# What may stand in a header: visible ASCII.
_KEY = re.compile(r"[\x21-\x7e]{1,4096}")
_ENVIRONMENT = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_KEYRING = re.compile(r"keyring:[^/]+/.+")


def checked_reference(reference: str) -> str:
    """Raises ValueError, which does not quote what may be the key itself, for another form."""
    if _ENVIRONMENT.fullmatch(reference) or _KEYRING.fullmatch(reference):
        return reference
    raise ValueError(
        'it must say where the key is, "env:NAME" or "keyring:SERVICE/USER"; the key itself has no place here'
    )


def read_key(reference: str, remote: str) -> str:
    """The key. May block, for a keyring asks another process.

    remote: the remote's name, for the words of a failure.
    Raises SettingsError.
    """
    kind, _, where = reference.partition(":")
    if kind == "env":
        key = os.environ.get(where, "")
        fix = f"Set {where} for the program that starts Hearth, then run `hearth stop`."
    else:
        service, _, user = where.partition("/")
        key = _from_keyring(service, user, remote)
        fix = f"Run: keyring set '{service}' '{user}'"
    if not key:
        raise SettingsError(f"The key of the remote {remote} is not there: {reference} is empty.", action=fix)
    if not _KEY.fullmatch(key):
        raise SettingsError(
            f"The key of the remote {remote} has characters that no key has (blanks, line ends, letters "
            "beyond ASCII).",
            action=fix,
        )
    return key


def _from_keyring(service: str, user: str, remote: str) -> str:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise SettingsError(
            f"The key of the remote {remote} is in a keyring, and the package that reads it is missing.",
            action="Run: pip install 'hearth[keyring]'; or name an environment variable, key = \"env:NAME\".",
        ) from None
    try:
        return keyring.get_password(service, user) or ""
    except KeyringError as error:
        raise SettingsError(
            f"The keyring does not give the key of the remote {remote} ({type(error).__name__}).",
            action='Unlock it; or name an environment variable, key = "env:NAME".',
        ) from None
