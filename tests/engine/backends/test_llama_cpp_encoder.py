"""Encoders by llama.cpp's package, beside llama.cpp called directly."""

import numpy as np
import pytest

from engine.backends.choose import is_encoder
from engine.backends.llama_cpp_encoder import SMALLEST_CONTEXT, LlamaCppEncoder
from engine.backends.native import open_gguf
from engine.backends.pooling import Pooling
from engine.errors import ModelFileError

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("llama_cpp_package")]

TEXTS = ["def read(a):\n    return a", "the reader", "x", "ü 漢字 </s> <unk>", "a in the " * 40]


@pytest.fixture
def encoder(tiny_encoder):
    """encoder(pooling, **options of the file): closed in the end."""
    made = []

    def make(pooling=Pooling.CLS, context_tokens=None, **options):
        path = tiny_encoder(pooling=int(pooling), **options)
        made.append(LlamaCppEncoder(path, pooling, threads=1, context_tokens=context_tokens))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("tokenizer", ["t5", "bert"])
@pytest.mark.parametrize("pooling", Pooling)
def test_tokens_and_vectors_are_llama_cpps(encoder, tiny_encoder, llama_cpp, pooling, tokenizer):
    ours = encoder(pooling, tokenizer=tokenizer)
    with llama_cpp(
        tiny_encoder(pooling=int(pooling), tokenizer=tokenizer), pooling=pooling.name.lower()
    ) as theirs:
        for text in TEXTS:
            ids = ours.tokenize(text)
            assert ids.tolist() == theirs.tokenize(text)
            assert len(ids) > 2
            vector, expected = ours.embed(ids), theirs.embedding(ids.tolist())
            assert vector.shape == (64,)
            # Theirs runs without flash attention, which rounds keys and values to half precision.
            np.testing.assert_allclose(vector, expected, atol=1e-2 * expected.std())


def test_a_decoder_that_was_made_to_look_both_ways(tiny_model, llama_cpp):
    path = tiny_model("qwen2", pooling=1, causal=False)
    assert is_encoder(open_gguf(path))
    ours = LlamaCppEncoder(path, Pooling.MEAN, threads=1)
    vectors = [ours.embed(ours.tokenize(text)) for text in TEXTS]
    with llama_cpp(path, pooling="mean") as theirs:
        for text, vector in zip(TEXTS, vectors, strict=True):
            expected = theirs.embedding(theirs.tokenize(text))
            np.testing.assert_allclose(vector, expected, atol=2e-2 * expected.std())
    ours.close()
    with llama_cpp(tiny_model("qwen2", pooling=1), pooling="mean") as causal:
        assert not np.allclose(vectors[0], causal.embedding(causal.tokenize(TEXTS[0])), atol=0.1)


def test_a_vector_does_not_depend_on_what_came_before(encoder):
    ours = encoder(Pooling.MEAN)
    first = [ours.embed(ours.tokenize(text)) for text in TEXTS]
    again = [ours.embed(ours.tokenize(text)) for text in reversed(TEXTS)]
    for one, other in zip(first, reversed(again), strict=True):
        assert np.array_equal(one, other)


def test_spellings_of_control_tokens_are_text(encoder):
    ours = encoder()
    bos, *text, eos = ours.tokenize("</s><pad><s>").tolist()
    assert (bos, eos) == (0, 2)
    assert not {0, 1, 2} & set(text)


def test_longer_texts_get_more_room(encoder):
    ours = encoder(Pooling.MEAN)
    short = ours.tokenize("the reader")
    before = ours.embed(short)
    long = np.resize(short, SMALLEST_CONTEXT + 1)
    assert np.isfinite(ours.embed(long)).all()
    assert np.isfinite(ours.embed(np.resize(short, ours.context_tokens))).all()
    np.testing.assert_allclose(ours.embed(short), before, atol=1e-5)


def test_the_window_is_the_models_or_a_smaller_one(encoder):
    assert encoder().context_tokens == 2048
    assert encoder(context_tokens=100).context_tokens == 100


def test_a_cancelled_text_stops_and_the_next_runs(encoder, monkeypatch):
    ours = encoder()
    ids = ours.tokenize("the reader")
    vector = ours.embed(ids)
    encode = ours._lib.llama_encode

    def cancelled_meanwhile(context, batch):
        ours.cancel()
        return encode(context, batch)

    with monkeypatch.context() as patch:
        patch.setattr(ours._lib, "llama_encode", cancelled_meanwhile)
        with pytest.raises(InterruptedError):
            ours.embed(ids)
    assert np.array_equal(ours.embed(ids), vector)


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelFileError, match=r"cannot run x\.gguf"):
        LlamaCppEncoder(path, Pooling.MEAN)
