"""The three real vocabularies: equal to llama.cpp, and to ids recorded from it for where it is missing.

HEARTH_RECORD_GOLDEN=1 with the oracle there records golden.json anew.
"""

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.model
GOLDEN = Path(__file__).with_name("golden.json")
VOCABULARIES = {"qwen2.5-coder-0.5b": "qwen2", "qwen2.5-coder-1.5b": "qwen2", "smollm2-135m": "smollm"}


def fixed_texts(helpers, samples):
    """name -> text: the part of the samples that is the same on every machine."""
    texts = {f"torture: {name}": text for name, text in samples.TORTURE.items()}
    texts |= {f"corpus: {path.name}": path.read_text() for path in sorted(helpers.CORPUS.iterdir())}
    for language in samples.LANGUAGES:
        texts |= {f"salad: {language} {seed}": samples.salad(language, seed) for seed in range(2)}
    return texts


def digest(ids):
    return hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest()[:16]


def test_ids_equal_the_recorded_ones(model_name, model_tokenizer, helpers, samples):
    golden = json.loads(GOLDEN.read_text())[VOCABULARIES[model_name]]
    texts = fixed_texts(helpers, samples)
    assert {
        name: [len(ids := model_tokenizer.encode(text)), digest(ids)] for name, text in texts.items()
    } == golden


@pytest.mark.oracle
def test_recorded_ids_are_llama_cpps(model_name, llama_cpp_vocabulary, helpers, samples):
    """Writes golden.json when HEARTH_RECORD_GOLDEN is set, else holds it against the oracle."""
    texts = fixed_texts(helpers, samples)
    recorded = {
        name: [len(ids := llama_cpp_vocabulary.encode(text)), digest(ids)] for name, text in texts.items()
    }
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("HEARTH_RECORD_GOLDEN"):
        golden[VOCABULARIES[model_name]] = recorded
        GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    assert golden[VOCABULARIES[model_name]] == recorded


@pytest.mark.oracle
def test_source_lines_of_many_languages(model_tokenizer, llama_cpp_vocabulary, helpers, samples):
    texts = [*fixed_texts(helpers, samples).values(), *samples.standard_library(40)]
    texts += [samples.salad(language, seed) for language in samples.LANGUAGES for seed in range(2, 6)]
    assert sum(text.count("\n") for text in texts) > 20_000
    for text in texts:
        for special in (False, True):
            assert model_tokenizer.encode(text, special=special) == llama_cpp_vocabulary.encode(
                text, special=special
            )


@pytest.mark.oracle
def test_line_by_line(model_tokenizer, llama_cpp_vocabulary, helpers, samples):
    # Alone, a line's blanks and ends are cut differently from the same line inside a file.
    for text in fixed_texts(helpers, samples).values():
        for line in text.splitlines(keepends=True)[:200]:
            assert model_tokenizer.encode(line) == llama_cpp_vocabulary.encode(line)


@pytest.mark.oracle
def test_every_code_point(model_tokenizer, llama_cpp_vocabulary, samples):
    wrong = [
        text[:2]
        for text in samples.code_points()
        if model_tokenizer.encode(text) != llama_cpp_vocabulary.encode(text)
    ]
    assert wrong == []


@pytest.mark.oracle
@settings(deadline=None, max_examples=400)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_arbitrary_text(model_tokenizer, llama_cpp_vocabulary, text):
    assert model_tokenizer.encode(text) == llama_cpp_vocabulary.encode(text)


@pytest.mark.oracle
def test_bytes_and_ends_of_all_tokens(model_tokenizer, llama_cpp_vocabulary):
    assert model_tokenizer.vocab_size == llama_cpp_vocabulary.size
    assert model_tokenizer.eos_ids == llama_cpp_vocabulary.end_ids()
    assert model_tokenizer.add_bos == llama_cpp_vocabulary.add_bos
    wrong = [
        token
        for token in range(llama_cpp_vocabulary.size)
        if model_tokenizer.token_bytes(token) != llama_cpp_vocabulary.token_bytes(token)
    ]
    assert wrong == []
