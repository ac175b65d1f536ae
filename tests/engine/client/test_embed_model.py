"""Embeddings by a real model, beside llama.cpp's mean over the same tokens."""

import numpy as np
import pytest

from engine import _native
from engine.client.in_process import open_in_process
from engine.tokenizer import Tokenizer

pytestmark = [pytest.mark.model, pytest.mark.oracle]

TEXTS = [
    "def add(a, b):\n    return a + b\n",
    "def total(numbers):\n    return sum(numbers)\n",
    "The weather in the mountains changes quickly in spring, so take a warm coat with you.",
    "Grüße aus Zürich",
]


async def test_vectors_are_llama_cpps_and_texts_that_mean_alike_are_near(real_model, llama_cpp):
    path = real_model("smollm2-135m")
    engine = open_in_process(path, threads=2, context_tokens=512)
    await engine.wait_loaded()
    try:
        vectors = np.array((await engine.embed(TEXTS)).vectors)
    finally:
        await engine.close()
    tokenizer = Tokenizer.from_gguf(_native.GgufFile(str(path)))
    with llama_cpp(path, pooling="mean") as model:
        theirs = np.array([model.embedding(tokenizer.encode(text)) for text in TEXTS])
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    # Both round activations to 8 bits, each in its own way.
    assert (vectors * theirs).sum(axis=1).min() > 0.9995
    near = vectors @ vectors.T
    assert near[0, 1] > near[0, 2]
