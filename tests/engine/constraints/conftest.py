from pathlib import Path

import numpy as np
import pytest

from engine.constraints import GrammarCompiler
from engine.tokenizer import Tokenizer

_HELPERS = Path(__file__).parents[1] / "tokenizer" / "helpers.py"


@pytest.fixture(scope="session")
def tokenizer(load_helper):
    """A small tokenizer with all bytes and Qwen's special tokens."""
    return Tokenizer.from_gguf(load_helper(_HELPERS).toy_metadata())


@pytest.fixture(scope="session")
def compiler(tokenizer):
    return GrammarCompiler(tokenizer)


@pytest.fixture(scope="session")
def accepts(tokenizer, compiler):
    """accepts(grammar, text): whether the text matches as a whole."""

    def check(grammar, text):
        matcher = compiler.compile(grammar, "grammar")
        for token in tokenizer.encode(text):
            if not matcher.allows(token):
                return False
            matcher.accept(token)
        return matcher.is_complete

    return check


@pytest.fixture(scope="session")
def wander(tokenizer, compiler):
    """wander(grammar, seed): text drawn at random among what the grammar allows; None when it did not end."""

    def walk(grammar, seed, most=400):
        matcher = compiler.compile(grammar, "grammar")
        random = np.random.default_rng(seed)
        tokens = []
        end = min(tokenizer.eos_ids)
        for _ in range(most):
            logits = random.normal(size=tokenizer.vocab_size).astype(np.float32)
            token = int(np.argmax(matcher.restrict(logits)))
            if matcher.is_complete and random.random() < 0.5:
                assert matcher.allows(end)
                token = end
            if token in tokenizer.eos_ids:
                return tokenizer.decode(tokens)
            matcher.accept(token)
            tokens.append(token)
        return None

    return walk
