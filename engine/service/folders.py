"""Whether Hearth can use a folder, and the exact command that mends what keeps it from that."""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from pathlib import Path

from engine import paths
from engine.errors import SettingsError

_ELSEWHERE = f"set {paths.HOME_VARIABLE} to a folder of your own"


def check_folder(folder: Path, *, writes: bool = True, private: bool = False) -> None:
    """Raise SettingsError when the folder is not there and cannot be made, or cannot be used.

    writes: whether Hearth writes there, or only reads.
    private: whether it must be this user's own.
    """
    wanted = os.X_OK | (os.W_OK if writes else os.R_OK)
    for path in (*reversed(folder.parents), folder):
        try:
            found = path.stat()
        except FileNotFoundError:
            if path.is_symlink():
                raise _in_the_way(path, "is a link to nothing") from None
            if writes and not os.access(path.parent, os.W_OK | os.X_OK):
                raise _cannot_make(path, path.parent.stat()) from None
            return
        except OSError as error:
            raise SettingsError(
                f"{path} cannot be used: {error.strerror}.", action=f"Mend it, or {_ELSEWHERE}."
            ) from error
        if not stat.S_ISDIR(found.st_mode):
            raise _in_the_way(path, "is not a folder")
        if not os.access(path, wanted if path == folder else os.X_OK):
            raise _refused(path, found, own=path == folder)
        if private and path == folder and found.st_uid != os.getuid():
            raise _refused(path, found, own=True)


def room(folder: Path) -> int:
    """Bytes that are free for this user where the folder is, or would be."""
    for path in (folder, *folder.parents):
        try:
            system = os.statvfs(path)
        except OSError:
            continue
        return system.f_bavail * system.f_frsize
    return 0


def _refused(path: Path, found: os.stat_result, *, own: bool) -> SettingsError:
    if os.statvfs(path).f_flag & os.ST_RDONLY and os.access(path, os.X_OK):
        return SettingsError(
            f"The folder {path} is on a disk that can only be read.",
            action=f"Now {_ELSEWHERE} on another disk.",
        )
    quoted = shlex.quote(str(path))
    if found.st_uid == os.getuid():
        return SettingsError(
            f"The permissions of your folder {path} keep Hearth from using it.",
            action=f"Run: chmod u+rwx {quoted}",
        )
    what = f"The folder {path} belongs to {_name(found.st_uid)}, and Hearth cannot use it."
    if not own:
        return SettingsError(what, action=f"Now {_ELSEWHERE}.")
    return SettingsError(what, action=f"Run: sudo chown -R {_name(os.getuid())} {quoted}; or {_ELSEWHERE}.")


def _in_the_way(path: Path, what: str) -> SettingsError:
    quoted, aside = shlex.quote(str(path)), shlex.quote(f"{path}.old")
    return SettingsError(
        f"{path} {what}, and Hearth needs a folder there.", action=f"Run: mv {quoted} {aside}"
    )


def _cannot_make(path: Path, parent: os.stat_result) -> SettingsError:
    if parent.st_uid == os.getuid():
        return _refused(path.parent, parent, own=True)
    command = f"sudo install -d -m 700 -o {_name(os.getuid())} {shlex.quote(str(path))}"
    return SettingsError(
        f"Hearth cannot make its folder {path}: {path.parent} is not yours to write to.",
        action=f"Run: {command}; or {_ELSEWHERE}.",
    )


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
