"""The machine as `hearth doctor` shows it: processor, memory, graphics."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from engine.backends.cpu import default_threads
from engine.backends.memory import available_bytes

_TOOL_SECONDS = 20
_CPUINFO = Path("/proc/cpuinfo")
_MEMINFO = Path("/proc/meminfo")
_NVIDIA = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A graphics processor; memory_bytes and driver are 0 and "" where only the kernel knows of it."""

    name: str
    memory_bytes: int = 0
    driver: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """cores: physical ones that Hearth may use. memory_bytes, free_bytes: None where the system is silent."""

    system: str
    cpu: str
    cores: int
    logical_cpus: int
    memory_bytes: int | None
    free_bytes: int | None
    gpus: tuple[Gpu, ...]


def look() -> Machine:
    """This machine."""
    return Machine(
        system=f"{platform.system()} {platform.release()}, {platform.machine()}",
        cpu=cpu_name(),
        cores=default_threads(),
        logical_cpus=os.cpu_count() or 1,
        memory_bytes=total_bytes(),
        free_bytes=available_bytes(),
        gpus=gpus(),
    )


def cpu_name(cpuinfo: Path = _CPUINFO) -> str:
    """The processor's name, as the kernel tells it."""
    try:
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def total_bytes(meminfo: Path = _MEMINFO) -> int | None:
    """Memory of the machine; None where the system does not tell."""
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def gpus(nvidia: Path = _NVIDIA) -> tuple[Gpu, ...]:
    """NVIDIA's: from its own tool, else from its kernel driver."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"]
    if (printed := run_tool(query)) is not None:
        return tuple(gpu for line in printed.splitlines() if (gpu := _gpu(line)) is not None)
    names = []
    for file in sorted(nvidia.glob("*/information")):
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        names += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return tuple(Gpu(name) for name in names)


def run_tool(command: list[str]) -> str | None:
    """What a program prints; None when it is not there, fails or hangs."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TOOL_SECONDS,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout


def _gpu(line: str) -> Gpu | None:
    match [part.strip() for part in line.split(",")]:
        case [name, mebibytes, driver]:
            return Gpu(name, int(mebibytes) << 20 if mebibytes.isdigit() else 0, driver)
    return None
