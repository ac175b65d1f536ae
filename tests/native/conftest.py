"""Fixtures for tests of the native engine."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine import _native


class Runner:
    """One engine and short ways to feed it."""

    def __init__(self, path: Path, **options: object) -> None:
        settings = {"kv_tokens": 2048, "threads": 2, **options}
        self.model = _native.Model(_native.GgufFile(str(path)), isa=settings.pop("isa", "auto"))
        self.engine = _native.Engine(self.model, **settings)

    def append(self, seq: int, tokens: np.ndarray) -> np.ndarray:
        """Appends the tokens in one forward pass; logits of all of them."""
        n = len(tokens)
        return self.engine.forward(
            np.full(n, seq, np.int32), np.ascontiguousarray(tokens, np.int32), np.ones(n, bool)
        )

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Logits of all positions of a fresh sequence, in one pass."""
        seq = self.engine.new_sequence()
        try:
            return self.append(seq, tokens)
        finally:
            self.engine.free_sequence(seq)


@pytest.fixture(scope="session")
def runner() -> Callable[..., Runner]:
    """runner(path, isa=, kv_format=, threads=, kv_tokens=): a Runner, made once for each set of options."""
    made: dict[object, Runner] = {}

    def make(path: Path, **options: object) -> Runner:
        key = (path, *sorted(options.items()))
        if key not in made:
            made[key] = Runner(path, **options)
        return made[key]

    return make


@pytest.fixture
def tokens() -> np.ndarray:
    """150 token ids of the tiny models' vocabulary."""
    return np.random.default_rng(7).integers(0, 300, 150).astype(np.int32)
