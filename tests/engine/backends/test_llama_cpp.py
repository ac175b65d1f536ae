"""The llama.cpp back end against ours, on a model that both run."""

import numpy as np
import pytest

from engine.backends import llama_cpp
from engine.backends.llama_cpp import LlamaCppBackend
from engine.backends.native import NativeBackend, open_gguf
from engine.errors import ModelFileError

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("llama_cpp_package")]

TOKENS = np.random.default_rng(5).integers(0, 300, 60).astype(np.int32)


@pytest.fixture
def backend(tiny_model):
    backend = LlamaCppBackend(tiny_model("qwen2"), threads=2, context_tokens=128)
    yield backend
    backend.close()


def append(backend, seq, tokens):
    return backend.forward(np.full(len(tokens), seq, np.int32), tokens, np.ones(len(tokens), bool))


def test_logits_are_those_of_our_own_engine(backend, tiny_model):
    ours = NativeBackend(open_gguf(tiny_model("qwen2")), threads=2, context_tokens=128)
    expected = append(ours, ours.new_sequence(), TOKENS)
    logits = append(backend, backend.new_sequence(), TOKENS)
    # Both keep keys and values in half precision, each rounded from its own sums.
    assert np.sqrt(np.mean((logits - expected) ** 2)) < 3e-3 * expected.std()
    assert (backend.n_vocab, backend.context_tokens) == (ours.n_vocab, ours.context_tokens)


def test_several_sequences_forks_and_chunks(backend):
    first = backend.new_sequence()
    whole = append(backend, first, TOKENS)
    fork = backend.fork_sequence(first, 20)
    other = backend.new_sequence()
    append(backend, other, TOKENS[::-1][:30].copy())
    rest = append(backend, fork, TOKENS[20:])
    np.testing.assert_allclose(rest, whole[20:], atol=0.02 * whole.std())
    for seq in (first, fork, other):
        backend.free_sequence(seq)
    assert backend.new_sequence() == 0


def test_a_full_cache_is_a_memory_error_and_changes_nothing(backend):
    seqs = [backend.new_sequence() for _ in range(4)]
    whole = append(backend, seqs[0], TOKENS)
    for seq in seqs[1:]:
        append(backend, seq, TOKENS)
    with pytest.raises(MemoryError):
        append(backend, seqs[0], TOKENS[:40])
    backend.free_sequence(seqs[3])
    backend.free_sequence(seqs[2])
    again = backend.fork_sequence(seqs[0], 10)
    np.testing.assert_allclose(append(backend, again, TOKENS[10:]), whole[10:], atol=0.02 * whole.std())


def test_hidden_states_are_those_of_our_own_engine_and_logits_go_beside_them(backend, tiny_model):
    ours = NativeBackend(open_gguf(tiny_model("qwen2")), threads=2, context_tokens=128)
    want_logits = np.arange(len(TOKENS)) % 7 == 3
    want_hidden = np.arange(len(TOKENS)) % 3 > 0
    results = []
    for one in (backend, ours):
        seqs = np.full(len(TOKENS), one.new_sequence(), np.int32)
        results.append(one.forward_hidden(seqs, TOKENS, want_logits, want_hidden))
    for theirs, expected in zip(*results, strict=True):
        assert theirs.shape == expected.shape
        assert np.sqrt(np.mean((theirs - expected) ** 2)) < 3e-3 * expected.std()
    # The next forward gives logits alone again.
    assert append(backend, backend.new_sequence(), TOKENS[:5]).shape == (5, backend.n_vocab)


def test_sequences_run_out_in_words(backend):
    for _ in range(llama_cpp.MAX_SEQUENCES):
        backend.new_sequence()
    with pytest.raises(MemoryError, match="all sequences"):
        backend.new_sequence()


def test_a_cancelled_forward_leaves_the_sequence_as_it_was(backend, monkeypatch):
    seq = backend.new_sequence()
    whole = append(backend, seq, TOKENS)
    backend.free_sequence(seq)
    seq = backend.new_sequence()
    append(backend, seq, TOKENS[:10])
    library = backend._lib.llama_decode

    def cancelled_meanwhile(context, batch):
        backend.cancel()
        return library(context, batch)

    monkeypatch.setattr(backend._lib, "llama_decode", cancelled_meanwhile)
    with pytest.raises(InterruptedError):
        append(backend, seq, TOKENS[10:])
    monkeypatch.undo()
    np.testing.assert_allclose(append(backend, seq, TOKENS[10:]), whole[10:], atol=0.02 * whole.std())


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelFileError, match=r"cannot run x\.gguf"):
        LlamaCppBackend(path)


def test_a_load_can_be_stopped(tiny_model):
    asked = []

    def stop():
        asked.append(True)
        return True

    with pytest.raises(InterruptedError):
        LlamaCppBackend(tiny_model("qwen2"), cancelled=stop)
    assert asked
