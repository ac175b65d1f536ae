import importlib.util
import sys
from pathlib import Path

import pytest


def _load(path):
    # Test folders are no packages, so a helper module is loaded by its place.
    name = f"tokenizer_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def helpers():
    """The module helpers.py."""
    return _load(Path(__file__).with_name("helpers.py"))


@pytest.fixture(scope="session")
def samples():
    """The module samples.py."""
    return _load(Path(__file__).with_name("samples.py"))


@pytest.fixture(scope="session")
def vocabularies():
    """The module vocabularies.py."""
    return _load(Path(__file__).with_name("vocabularies.py"))


@pytest.fixture(scope="session")
def toy_tokenizer(helpers):
    """A small tokenizer with Qwen's special tokens."""
    from engine.tokenizer import Tokenizer

    return Tokenizer.from_gguf(helpers.toy_metadata())


@pytest.fixture(scope="session")
def toy_sentencepiece(helpers):
    """A small SentencePiece tokenizer."""
    from engine.tokenizer import Tokenizer

    return Tokenizer.from_gguf(helpers.toy_sentencepiece({"<tag>": helpers.USER_DEFINED}))


@pytest.fixture(scope="session", params=["byte-level", "SentencePiece"])
def any_toy(request, toy_tokenizer, toy_sentencepiece):
    """A small tokenizer of each kind."""
    return toy_tokenizer if request.param == "byte-level" else toy_sentencepiece


@pytest.fixture(scope="session", params=["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", "smollm2-135m"])
def model_name(request):
    return request.param


@pytest.fixture(scope="session")
def model_metadata(helpers, model_name):
    return helpers.FileMetadata(helpers.model_path(model_name))


@pytest.fixture(scope="session")
def model_tokenizer(model_metadata):
    from engine.tokenizer import Tokenizer

    return Tokenizer.from_gguf(model_metadata)


@pytest.fixture(scope="session")
def llama_cpp_vocabulary(helpers, model_name):
    return helpers.LlamaCppVocabulary(helpers.model_path(model_name))
