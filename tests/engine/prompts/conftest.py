import importlib.util
import sys
from pathlib import Path

import pytest

_TOKENIZER_TESTS = Path(__file__).parents[1] / "tokenizer"


def _load(stem):
    name = f"tokenizer_{stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, _TOKENIZER_TESTS / f"{stem}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def helpers():
    """The tokenizer tests' module helpers.py: small and real vocabularies, llama.cpp."""
    return _load("helpers")


@pytest.fixture(scope="session")
def vocabularies():
    """The tokenizer tests' module vocabularies.py: real vocabularies without a model."""
    return _load("vocabularies")


@pytest.fixture(scope="session")
def make_tokenizer(helpers):
    """make_tokenizer(*spellings, **metadata): a small tokenizer with these control tokens."""
    from engine.tokenizer import Tokenizer

    def make(*spellings, **changes):
        specials = dict.fromkeys(spellings, helpers.CONTROL)
        return Tokenizer.from_gguf(helpers.toy_metadata(specials, **changes))

    return make


@pytest.fixture(scope="session")
def qwen_like(helpers):
    """A small tokenizer with Qwen's special tokens."""
    from engine.tokenizer import Tokenizer

    return Tokenizer.from_gguf(helpers.toy_metadata())


@pytest.fixture(scope="session")
def source_text(helpers):
    """About 60,000 characters of code."""
    files = [path.read_text() for path in sorted(helpers.CORPUS.iterdir())]
    return "\n".join(files * 5)


@pytest.fixture(scope="session")
def real_model(helpers):
    """real_model(name): (metadata, tokenizer) of a real model."""
    from engine.tokenizer import Tokenizer

    def load(name):
        metadata = helpers.FileMetadata(helpers.model_path(name))
        return metadata, Tokenizer.from_gguf(metadata)

    return load
