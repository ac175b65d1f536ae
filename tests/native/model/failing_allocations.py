"""Fails each allocation of each step in turn: failing_allocations.py LIBRARY MODEL, the library preloaded.

A step may end in nothing but success or MemoryError, and after a MemoryError everything is as before it.
"""

import ctypes
import sys
from collections.abc import Callable

import numpy as np

from engine import _native

PAGE = 64


def fail_each(library: ctypes.CDLL, step: Callable[[], object], check: Callable[[], None]) -> int:
    """The number of allocations of a step, once it has failed at each."""
    n = 0
    while True:
        library.fail_allocation(n)
        try:
            step()
        except MemoryError:
            assert library.fail_allocation(-1)
            check()
        else:
            if not library.fail_allocation(-1):
                return n
        n += 1


def fail_each_of_making(library: ctypes.CDLL, kind: type, *args: object, **options: object) -> int:
    """The same for a constructor, but for what nanobind allocates itself: there it ends the process."""
    n = sum(not isinstance(arg, str) for arg in args)  # an allocation for each object; short texts need none
    while True:
        made = kind.__new__(kind)
        library.fail_allocation(n)
        try:
            made.__init__(*args, **options)
        except MemoryError:
            assert library.fail_allocation(-1)
        else:
            if not library.fail_allocation(-1):
                return n
        n += 1


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    library.fail_allocation.argtypes = [ctypes.c_long]
    library.fail_allocation.restype = ctypes.c_bool
    path = sys.argv[2]
    gguf = _native.GgufFile(path)
    model = _native.Model(gguf)
    counts = {
        "open": fail_each_of_making(library, _native.GgufFile, path),
        "load": fail_each_of_making(library, _native.Model, gguf),
        "engine": fail_each_of_making(library, _native.Engine, model, kv_tokens=16 * PAGE, threads=3),
    }

    def make_engine() -> _native.Engine:
        return _native.Engine(model, kv_tokens=16 * PAGE, threads=3)

    tokens = np.arange(150, dtype=np.int32)
    every = np.ones(150, bool)
    seqs = np.zeros(150, np.int32)
    cold = make_engine()
    assert cold.new_sequence() == 0
    expected = cold.forward(seqs, tokens, every)

    def forward() -> None:
        engine = make_engine()  # with no buffers grown yet
        seq = engine.new_sequence()
        fork = engine.fork_sequence(seq, 0)
        library.fail_allocation(forward_at[0])
        try:
            engine.forward(seqs, tokens, every)
        finally:
            failed[0] = library.fail_allocation(-1)
            if failed[0]:
                assert engine.length(seq) == 0
                assert engine.free_tokens == 16 * PAGE
                assert np.array_equal(engine.forward(seqs, tokens, every), expected)
            engine.truncate(seq, 0)
            engine.free_sequence(fork)

    forward_at, failed = [0], [True]
    while failed[0]:
        try:
            forward()
            assert not failed[0], "an allocation failed and nothing was said"
        except MemoryError:
            forward_at[0] += 1
    counts["forward"] = forward_at[0]

    engine = make_engine()
    seq = engine.new_sequence()
    engine.forward(seqs[:70], tokens[:70], every[:70])
    free = engine.free_tokens

    def unchanged() -> None:
        assert engine.free_tokens == free
        assert engine.length(seq) == 70

    def fork_step() -> None:
        engine.free_sequence(engine.fork_sequence(seq, 70))

    counts["fork"] = fail_each(library, fork_step, unchanged)
    print(counts)
    assert all(counts.values()), counts


if __name__ == "__main__":
    main()
