"""The end of a process that holds models, engines and running threads, and one that is given no threads."""

import os
import subprocess
import sys

import pytest

LOAD = """
import sys
import numpy as np
from engine import _native
model = _native.Model(_native.GgufFile(sys.argv[1]))
engine = _native.Engine(model, kv_tokens=4096, threads=3)
seq = engine.new_sequence()
def forward(n):
    return engine.forward(np.full(n, seq, np.int32), np.zeros(n, np.int32), np.ones(n, bool))
"""

ENDINGS = {
    "globals are alive": "forward(5)",
    "an exception": "forward(5); sys.exit(3)",
    "a cycle": "engine_in = [engine]; engine_in.append(engine_in); forward(5); del engine",
    "logits outlive all": "import builtins; builtins.kept = forward(5); del engine, model",
    "a thread is computing": """
import threading
entered = threading.Event()
def work():
    while True:
        entered.set()
        forward(20)
        engine.truncate(seq, 0)
class Slow:
    def __del__(self):
        sum(range(3_000_000))  # time for the thread to want the interpreter's lock back
threading.Thread(target=work, daemon=True).start()
kept = Slow()
entered.wait()
""",
    "a thread is loading": """
import threading
entered = threading.Event()
def work():
    while True:
        entered.set()
        _native.Model(_native.GgufFile(sys.argv[1]), cancelled=lambda: False)
class Slow:
    def __del__(self):
        sum(range(3_000_000))
threading.Thread(target=work, daemon=True).start()
kept = Slow()
entered.wait()
""",
    "threads run short": """
import resource
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), resource.RLIM_INFINITY))
try:
    _native.Engine(model, kv_tokens=64, threads=1000)
except OSError as error:
    assert "temporarily unavailable" in str(error), error
else:
    raise AssertionError("a thousand threads in 256 MB")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
forward(5)
""",
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_a_process_ends_in_silence(tiny_model, ending):
    done = subprocess.run(
        [sys.executable, "-c", LOAD + ending, tiny_model("qwen2", "Q4_0")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == (3 if "sys.exit(3)" in ending else 0)
