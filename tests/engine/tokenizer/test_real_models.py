"""The catalogue's vocabularies against ids recorded from llama.cpp, for where it is missing.

HEARTH_RECORD_GOLDEN=1 with the oracle there records golden.json anew.
"""

import hashlib
import json
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.model
GOLDEN = Path(__file__).with_name("golden.json")
VOCABULARIES = {"qwen2.5-coder-0.5b": "qwen2", "qwen2.5-coder-1.5b": "qwen2", "smollm2-135m": "smollm"}


def digest(ids):
    return hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest()[:16]


def test_ids_equal_the_recorded_ones(model_name, model_tokenizer, samples):
    golden = json.loads(GOLDEN.read_text())[VOCABULARIES[model_name]]
    texts = samples.fixed_texts()
    assert {
        name: [len(ids := model_tokenizer.encode(text)), digest(ids)] for name, text in texts.items()
    } == golden


@pytest.mark.oracle
def test_recorded_ids_are_llama_cpps(model_name, llama_cpp_vocabulary, samples):
    """Writes golden.json when HEARTH_RECORD_GOLDEN is set, else holds it against the oracle."""
    texts = samples.fixed_texts()
    recorded = {
        name: [len(ids := llama_cpp_vocabulary.encode(text)), digest(ids)] for name, text in texts.items()
    }
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("HEARTH_RECORD_GOLDEN"):
        golden[VOCABULARIES[model_name]] = recorded
        GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    assert golden[VOCABULARIES[model_name]] == recorded
