"""The one place that knows which folders Hearth uses.

They follow the platform's own rules (platformdirs); HEARTH_HOME moves all of them under one folder.
Every function makes its folder, private to the user (mode 0700), unless `create=False`.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import platformdirs

from engine.errors import SettingsError

HOME_VARIABLE = "HEARTH_HOME"
MODEL_PATH_VARIABLE = "HEARTH_MODEL_PATH"


def data_dir(*, create: bool = True) -> Path:
    """What must be kept: the models and the user's own catalogue. Raises SettingsError."""
    return _folder("data", platformdirs.user_data_path("hearth", appauthor=False), create)


def models_dir(*, create: bool = True) -> Path:
    """Model files that Hearth fetched. Raises SettingsError."""
    path = data_dir(create=create) / "models"
    return make_private(path) if create else path


def cache_dir(*, create: bool = True) -> Path:
    """What may be deleted at any time and is made again. Raises SettingsError."""
    return _folder("cache", platformdirs.user_cache_path("hearth", appauthor=False), create)


def state_dir(*, create: bool = True) -> Path:
    """What Hearth remembers between runs, such as hashes already checked. Raises SettingsError."""
    return _folder("state", platformdirs.user_state_path("hearth", appauthor=False), create)


def logs_dir(*, create: bool = True) -> Path:
    """Log files. Raises SettingsError."""
    return _folder("logs", platformdirs.user_log_path("hearth", appauthor=False), create)


def config_dir(*, create: bool = True) -> Path:
    """What the user writes: `service.toml`. Raises SettingsError."""
    return _folder("config", platformdirs.user_config_path("hearth", appauthor=False), create)


def runtime_dir(*, create: bool = True) -> Path:
    """What lives no longer than the machine runs: sockets and locks, on this machine's own disk.

    Raises SettingsError.
    """
    if os.environ.get(HOME_VARIABLE):
        return _folder("run", Path(), create)
    # It warns where the system has no such folder, and takes a private one in the temporary folder.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            default = platformdirs.user_runtime_path("hearth", appauthor=False)
        except OSError as error:
            raise SettingsError(
                f"Hearth has no safe folder for its socket: {error.strerror or error}.",
                action=f"Set {HOME_VARIABLE} to a folder of your own.",
            ) from error
    return _folder("run", default, create)


def model_folders() -> tuple[Path, ...]:
    """Folders of HEARTH_MODEL_PATH that hold the user's copies of models; Hearth never writes there."""
    named = os.environ.get(MODEL_PATH_VARIABLE, "").split(os.pathsep)
    return tuple(Path(name).expanduser().absolute() for name in named if name)


def make_private(path: Path) -> Path:
    """Make a folder and its missing parents with mode 0700; one that exists is left as it is.

    Raises SettingsError when the folder cannot be made.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
        if not path.is_dir():
            raise NotADirectoryError(20, "a file of that name is in the way")
    except OSError as error:
        raise SettingsError(
            f"Hearth cannot make its folder {path}: {error.strerror}.",
            meaning="It has nowhere to keep models and state.",
            action=f"Set {HOME_VARIABLE} to a folder that you can write to.",
        ) from error
    return path


def _folder(name: str, platform_default: Path, create: bool) -> Path:
    home = os.environ.get(HOME_VARIABLE)
    path = Path(home).expanduser().absolute() / name if home else platform_default
    return make_private(path) if create else path
