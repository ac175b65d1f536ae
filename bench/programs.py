"""Whether a program that a model wrote runs to its end, in a process that can do little harm.

The process has no access to this one's modules or environment, an empty folder to work in, and limits on
processor time, memory, file size and open files. It is not a sandbox against malice: it bounds accidents.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile

SECONDS = 10
MEMORY_BYTES = 1 << 30
FILE_BYTES = 1 << 20
OPEN_FILES = 32

# Limits are set by the child itself, before it reads the program. The token, printed after the program's
# last line, tells a program that ran to its end from one that left early with exit code 0.
_CHILD = """
import resource, sys
token, seconds, memory, size, files = sys.argv[1], *map(int, sys.argv[2:])
for kind, limit in (("CPU", seconds), ("AS", memory), ("FSIZE", size), ("NOFILE", files), ("CORE", 0)):
    resource.setrlimit(getattr(resource, "RLIMIT_" + kind), (limit, limit))
exec(compile(sys.stdin.read(), "program", "exec"), {"__name__": "__main__"})
sys.__stdout__.write(token)
"""


def runs_to_its_end(program: str, seconds: float = SECONDS) -> bool:
    """Whether the Python program ends by itself, without an exception, within the limits."""
    token = secrets.token_hex(16)
    limits = [str(limit) for limit in (int(seconds) or 1, MEMORY_BYTES, FILE_BYTES, OPEN_FILES)]
    with tempfile.TemporaryDirectory(prefix="program-") as folder, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _CHILD, token, *limits],
            stdin=subprocess.PIPE,
            stdout=output,  # a file, so that FILE_BYTES bounds what it prints
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"PATH": os.defpath},
            start_new_session=True,
        )
        try:
            process.communicate(program.encode("utf-8", "replace"), timeout=2 * seconds)
        except subprocess.TimeoutExpired:
            return False
        finally:
            _end(process)
        output.seek(0)
        return process.returncode == 0 and output.read().endswith(token.encode())


def _end(process: subprocess.Popen[bytes]) -> None:
    """The process and whatever it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
