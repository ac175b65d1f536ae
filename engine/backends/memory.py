"""How much memory a model may still take, so that one that does not fit is refused instead of killed."""

from __future__ import annotations

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_bytes(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int | None:
    """Memory that programs can take without swapping, within this process's control group.

    None where the system does not tell (other than Linux).
    """
    system = _mem_available(meminfo)
    group = _group_room(cgroup)
    known = [room for room in (system, group) if room is not None]
    return min(known) if known else None


def _mem_available(meminfo: Path) -> int | None:
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _group_room(cgroup: Path) -> int | None:
    """What the group's limit leaves (cgroup v2); its file cache counts as free, since it gives way."""
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        if limit == "max":
            return None
        used = int((cgroup / "memory.current").read_text())
        stats = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        return max(0, int(limit) - used + int(stats.get("inactive_file", 0)))
    except (OSError, ValueError):
        return None
