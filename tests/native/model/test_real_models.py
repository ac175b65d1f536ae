"""Real models on real code, beside llama.cpp: 2,000 positions of the standard library.

Both engines round activations to 8 bits, each in its own way (ours in blocks of 32 columns with float32
scales, llama.cpp's K-quants in blocks of 256), so neither is the exact model. Qwen's figures are gated
against llama.cpp directly. For SmolLM2 llama.cpp's own rounding alone is further than that from the exact
model, so there ours must be as near to the exact one as llama.cpp is.

The 1.5B is compared from each text's second position on: at the first, whose activations have outliers that
coarse blocks cannot hold, llama.cpp alone is 2 to 4 nats off the exact model (ours at most 0.2). Over all
2,000 positions of one such comparison, with the weights expanded to float32 (7 GB, too much for every run),
ours was at 0.0007 and 98.9 %, llama.cpp at 0.0075 and 98.0 %; so the two cannot agree on 98 %.
"""

import argparse
import ast
import json.decoder
import textwrap
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine import _native
from engine.tokenizer import Tokenizer

pytestmark = [pytest.mark.model, pytest.mark.oracle]

SOURCES = (json.decoder, argparse, ast, textwrap)
POSITIONS = 500  # of each source


@pytest.fixture(scope="module")
def texts():
    def ids(path):
        tokenizer = Tokenizer.from_gguf(_native.GgufFile(str(path)))
        return [tokenizer.encode(Path(m.__file__).read_text())[:POSITIONS] for m in SOURCES]

    return ids


def log_softmax(logits):
    x = logits.astype(np.float64)
    x -= x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def distance(expected, actual):
    """Mean KL(expected || actual) in nats, and the share of positions with the same best token."""
    divergences, agreements = [], []
    for theirs, ours in zip(expected, actual, strict=True):
        p, q = log_softmax(theirs), log_softmax(ours)
        divergences.append((np.exp(p) * (p - q)).sum(1))
        agreements.append(p.argmax(1) == q.argmax(1))
    return float(np.concatenate(divergences).mean()), float(np.concatenate(agreements).mean())


def exact_copy(source, target):
    """The same weights, dequantised to float32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            kind = field.types[0]
            inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, sub_type=inner)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, np.ascontiguousarray(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


@pytest.mark.parametrize(
    ("name", "first", "least_agreement"), [("qwen2.5-coder-0.5b", 0, 0.98), ("qwen2.5-coder-1.5b", 1, 0.97)]
)
def test_qwen_is_as_near_to_llama_cpp_as_rounding_allows(
    name, first, least_agreement, real_model, runner, llama_cpp_logits, texts
):
    path = real_model(name)
    tokens = texts(path)
    ours = [runner(path).logits(np.array(ids, np.int32))[first:] for ids in tokens]
    theirs = [llama_cpp_logits(path, ids)[first:] for ids in tokens]
    divergence, agreement = distance(theirs, ours)
    print(f"{name}: mean KL {divergence:.5f}, same best token {agreement:.2%}")  # shown by pytest -rP
    assert divergence <= 3e-3
    assert agreement >= least_agreement


def test_smollm2_is_as_near_to_the_exact_model_as_llama_cpp(
    real_model, runner, llama_cpp_logits, texts, tmp_path
):
    path = real_model("smollm2-135m")
    tokens = texts(path)
    exact_path = exact_copy(path, tmp_path / "exact.gguf")
    exact = [runner(exact_path, kv_format="f32").logits(np.array(ids, np.int32)) for ids in tokens]
    ours = distance(exact, [runner(path).logits(np.array(ids, np.int32)) for ids in tokens])
    theirs = distance(exact, [llama_cpp_logits(path, ids) for ids in tokens])
    assert ours[0] <= 1.15 * theirs[0]
    assert ours[1] >= theirs[1] - 0.02
