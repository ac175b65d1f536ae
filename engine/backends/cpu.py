"""How many worker threads suit this machine."""

from __future__ import annotations

import os
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def default_threads(cpus: Path = _CPUS, quota: Path = _QUOTA) -> int:
    """Physical cores that this process may use, at least 1.

    Two hyper-threads share one core's arithmetic units, which the kernels keep full. Where the topology is
    unknown (not Linux), every logical processor counts. A container's quota of processor time is a limit
    too: more threads than that would be stopped in the middle of a step.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = {_core(cpus, cpu) for cpu in allowed}
    return max(1, min(len(cores), _quota_cpus(quota)))


def _core(cpus: Path, cpu: int) -> str:
    """A name shared by the hyper-threads of one core."""
    try:
        return (cpus / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return f"cpu{cpu}"


def _quota_cpus(quota: Path) -> int:
    """Whole processors that a cgroup (v2) grants: its file says "microseconds period", or "max period"."""
    try:
        granted, period = quota.read_text().split()
        return max(1, int(granted) // int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return os.cpu_count() or 1
