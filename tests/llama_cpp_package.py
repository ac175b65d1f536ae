"""The package llama-cpp-python over the oracle's prebuilt library, for tests of the back ends that use it.

Building the package takes many minutes, most of them for the library that the oracle has already. So only its
Python is taken, out of its source archive, which pip fetches by name and hash into the development cache; it
is not installed. The package names its library libllama.so, and declares a few functions that are newer than
the oracle's release; a stub of a library has them, ends the process if one is called, and leads to the real
library for all others. What Hearth calls is declared alike in both.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

_REQUIREMENT = "llama-cpp-python==0.3.36"
_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
_FOLDER = "llama_cpp_python-0.3.36/llama_cpp/"
# What engine.backends imports; the package's own __init__ wants more packages.
_FILES = ("llama_cpp.py", "_ctypes_extensions.py")
_TIMEOUT_S = 300

_NEWER = [
    "llama_batch_ext_add",
    "llama_batch_ext_add_embd",
    "llama_batch_ext_add_seq",
    "llama_batch_ext_add_token",
    "llama_batch_ext_clear",
    "llama_batch_ext_free",
    "llama_batch_ext_init",
    "llama_batch_ext_set_embd_state",
    "llama_batch_ext_set_embd_token",
    "llama_batch_ext_set_output_embd",
    "llama_batch_ext_set_output_logits",
    "llama_batch_ext_set_pos",
    "llama_get_causal_attn",
    "llama_process",
]


class PackageError(Exception):
    """The package cannot be had; the message says why."""


def fetch() -> Path:
    """A folder for sys.path that has the package llama_cpp. Raises PackageError."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hearth-dev"
    cache = Path(os.environ.get("HEARTH_DEV_CACHE") or home)
    folder = cache / _REQUIREMENT
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".partial-") as name:
        scratch = Path(name)
        package = scratch / "whole/llama_cpp"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        with tarfile.open(_download(scratch)) as archive:
            for file in _FILES:
                (package / file).write_bytes(archive.extractfile(_FOLDER + file).read())
        package.parent.replace(folder)
    return folder


def _download(scratch: Path) -> Path:
    wanted = scratch / "wanted.txt"
    wanted.write_text(f"{_REQUIREMENT} --hash=sha256:{_SHA256}\n")
    command = [
        sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input",
        "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-binary=:all:",
        "--require-hashes", "--requirement", str(wanted), "--dest", str(scratch),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise PackageError(f"pip took longer than {_TIMEOUT_S} s") from error
    if done.returncode:
        raise PackageError((done.stderr.strip().splitlines() or ["pip failed"])[-1])
    return next(scratch.glob("*.tar.gz"))


def link_library(libraries: Path, folder: Path) -> None:
    """Make folder/libllama.so, which leads to the release in `libraries`."""
    (real,) = libraries.glob("libllama.v*.so")
    stubs = "".join(f"void {name}(void) {{ abort(); }}\n" for name in _NEWER)
    source = folder / "stubs.c"
    source.write_text(f"#include <stdlib.h>\n{stubs}")
    linked = ["-Wl,--no-as-needed", str(real), f"-Wl,-rpath,{libraries}"]
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", source, *linked, "-o", folder / "libllama.so"]
    subprocess.run(command, check=True)
