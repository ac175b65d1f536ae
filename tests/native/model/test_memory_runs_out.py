"""Memory that runs out, wherever it happens, is a MemoryError and leaves the engine as it was."""

import os
import subprocess
import sys
from pathlib import Path


def test_each_allocation_failing_in_turn(tiny_model, compile_cpp, tmp_path):
    library = compile_cpp(["tests/native/model/failing_new.cpp"], "-O1", "-fPIC", "-shared")
    model = tiny_model("qwen2", "Q4_0", embd=64, ff=64, head_dim=32, heads=2, kv_heads=1)
    short = "m.gguf"  # short enough to be handed over without an allocation
    (tmp_path / short).write_bytes(model.read_bytes())
    script = Path(__file__).with_name("failing_allocations.py")
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", script, library, short],
        env=os.environ | {"LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
