"""Hidden states: what logits are made from, and what embeddings are pooled from."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import _native
from engine.reference.transformer import Transformer

SIMD = [isa for isa in _native.isas() if isa != "scalar"]
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def hidden(run, tokens, cuts=()):
    """Hidden states of all positions of a fresh sequence, in parts."""
    seq = run.engine.new_sequence()
    parts = []
    for part in np.split(tokens, cuts):
        n = len(part)
        logits, states = run.engine.forward_hidden(
            np.full(n, seq, np.int32), part, np.zeros(n, bool), np.ones(n, bool)
        )
        assert logits.shape == (0, run.model.n_vocab)
        parts.append(states)
    run.engine.free_sequence(seq)
    return np.concatenate(parts)


@pytest.mark.parametrize(
    ("arch", "options"),
    [("llama", {"rope_freqs": True}), ("qwen2", {}), ("qwen2", {"type": "F16"}), ("qwen3", {"tied": True})],
)
def test_equals_the_reference(tiny_model, runner, tokens, arch, options):
    path = tiny_model(arch, **options)
    expected = Transformer.load(path).hidden(tokens.tolist())
    states = hidden(runner(path, kv_format="f32"), tokens)
    assert states.dtype == np.float32
    assert states.shape == expected.shape
    assert np.abs(states - expected).max() < 1e-3 * expected.std()


@pytest.mark.oracle
@pytest.mark.parametrize(("arch", "options"), [("llama", {}), ("qwen2", {"type": "F16"}), ("qwen3", {})])
def test_mean_equals_llama_cpp(tiny_model, runner, tokens, llama_cpp, arch, options):
    path = tiny_model(arch, **options)
    with llama_cpp(path, pooling="mean") as model:
        expected = model.embedding(tokens.tolist())
    mean = hidden(runner(path, kv_format="f32"), tokens).astype(np.float64).mean(axis=0)
    assert np.abs(mean - expected).max() < 1e-3 * expected.std()


@quick
@given(data=st.data(), type=st.sampled_from(["F32", "Q4_1", "Q5_0", "Q8_0", "Q6_K"]))
def test_chunks_of_any_size(tiny_model, runner, tokens, data, type):
    run = runner(tiny_model("qwen2", type))
    cuts = data.draw(st.lists(st.integers(1, 149), max_size=8, unique=True).map(sorted))
    assert np.array_equal(hidden(run, tokens, cuts), hidden(run, tokens))


@quick
@given(data=st.data())
def test_rows_that_want_either_both_or_nothing(tiny_model, runner, tokens, data):
    """Whatever the rows of a forward want, each gets the bits that it gets alone."""
    run = runner(tiny_model("qwen2", "Q5_0"))
    all_logits, all_hidden = run.logits(tokens), hidden(run, tokens)
    lengths = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    n = sum(lengths)
    wants = st.lists(st.booleans(), min_size=n, max_size=n).map(np.array)
    want_logits, want_hidden = data.draw(wants), data.draw(wants)
    seqs = [run.engine.new_sequence() for _ in lengths]
    rows = np.concatenate([np.arange(length) for length in lengths])
    logits, states = run.engine.forward_hidden(
        np.repeat(np.array(seqs, np.int32), lengths), tokens[rows], want_logits, want_hidden
    )
    for seq in seqs:
        run.engine.free_sequence(seq)
    assert np.array_equal(logits, all_logits[rows[want_logits]])
    assert np.array_equal(states, all_hidden[rows[want_hidden]])


@pytest.mark.parametrize("isa", SIMD)
def test_every_instruction_set_gives_the_scalar_bits(tiny_model, runner, tokens, isa):
    path = tiny_model("qwen3", "Q4_0")
    assert np.array_equal(hidden(runner(path, isa=isa), tokens), hidden(runner(path, isa="scalar"), tokens))


def test_lengths_that_differ(tiny_model, runner):
    run = runner(tiny_model("qwen2"))
    seq = run.engine.new_sequence()
    one, two = np.zeros(1, bool), np.zeros(2, bool)
    with pytest.raises(ValueError, match="differ in length"):
        run.engine.forward_hidden(np.array([seq], np.int32), np.zeros(1, np.int32), one, two)
    run.engine.free_sequence(seq)
