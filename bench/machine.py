"""The machine that a number was measured on: recorded beside every result."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

_FLAGS = (
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "amx_int8",
    "asimd",
    "asimddp",
)


def describe() -> dict[str, object]:
    """Processor, cores, memory, system, load, date and the commit of this tree; plain values for JSON."""
    cpu = fields(Path("/proc/cpuinfo"))
    memory = fields(Path("/proc/meminfo"))
    known = set(cpu.get("flags", cpu.get("Features", "")).split())
    return {
        "cpu": cpu.get("model name", platform.machine()),
        "cores": os.cpu_count(),
        "instructions": [flag for flag in _FLAGS if flag in known],
        "cache": cpu.get("cache size", ""),
        "memory_gib": round(int(memory.get("MemTotal", "0 kB").split()[0]) / 2**20, 1),
        "system": f"{_distribution()}, {platform.machine()}",
        "python": platform.python_version(),
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "commit": _commit(),
    }


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def fields(path: Path) -> dict[str, str]:
    """The first "name: value" of each name; empty where the system has no such file."""
    found: dict[str, str] = {}
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.strip(), value.strip())
    return found


def _commit() -> str:
    """The commit, with "+" where the tree differs from it; "" outside a git checkout."""
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return commit.stdout.strip() + ("+" if changed.stdout else "")
