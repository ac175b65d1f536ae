"""A row gives the same bits whatever runs beside it, however it was chunked, on every instruction set."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import _native

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
SIMD = [isa for isa in _native.isas() if isa != "scalar"]
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("isa", SIMD)
def test_every_instruction_set_gives_the_scalar_bits(tiny_model, runner, tokens, isa, type):
    path = tiny_model("qwen2", type)
    scalar = runner(path, isa="scalar")
    simd = runner(path, isa=isa)
    for n in (1, 5, 40):  # one row, a few (weights unpacked in registers), many (unpacked panels)
        assert np.array_equal(simd.logits(tokens[:n]), scalar.logits(tokens[:n]))


@pytest.mark.parametrize("head_dim", [32, 128])
@pytest.mark.parametrize("isa", SIMD)
def test_every_instruction_set_gives_the_scalar_bits_for_other_heads(
    tiny_model, runner, tokens, isa, head_dim
):
    path = tiny_model("qwen3", "Q4_0", head_dim=head_dim)
    assert np.array_equal(
        runner(path, isa=isa).logits(tokens[:70]), runner(path, isa="scalar").logits(tokens[:70])
    )


@pytest.mark.parametrize("type", ["F16", "Q5_0", "Q4_K", "Q6_K"])
@pytest.mark.parametrize("neighbours", [0, 1, 7, 63])
def test_one_row_alone_or_beside_others(tiny_model, runner, tokens, type, neighbours):
    path = tiny_model("qwen2", type)
    run = runner(path, kv_tokens=64 * 66)
    engine = run.engine
    alone = run.logits(tokens[:20])
    seqs = [engine.new_sequence() for _ in range(neighbours + 1)]
    rng = np.random.default_rng(neighbours)
    for seq in seqs:
        run.append(seq, tokens[:19] if seq == seqs[0] else rng.integers(0, 300, rng.integers(1, 30)))
    last = np.concatenate([tokens[19:20], rng.integers(0, 300, neighbours)]).astype(np.int32)
    together = engine.forward(np.array(seqs, np.int32), last, np.ones(len(seqs), bool))
    for seq in seqs:
        engine.free_sequence(seq)
    assert np.array_equal(together[0], alone[19])


@quick
@given(data=st.data(), type=st.sampled_from(["F32", "Q4_1", "Q5_0", "Q8_0", "Q6_K"]))
def test_chunks_of_any_size(tiny_model, runner, tokens, data, type):
    run = runner(tiny_model("qwen2", type))
    whole = run.logits(tokens)
    cuts = data.draw(st.lists(st.integers(1, 149), max_size=8, unique=True).map(sorted))
    seq = run.engine.new_sequence()
    parts = [run.append(seq, part) for part in np.split(tokens, cuts)]
    run.engine.free_sequence(seq)
    assert np.array_equal(np.concatenate(parts), whole)


@quick
@given(length=st.integers(0, 150), threads=st.sampled_from([1, 2, 3]))
def test_forks_and_truncations_leave_no_trace(tiny_model, runner, tokens, length, threads):
    run = runner(tiny_model("llama", "Q4_0"), threads=threads)
    engine = run.engine
    whole = run.logits(tokens)
    free = engine.free_tokens
    seq = engine.new_sequence()
    run.append(seq, tokens)
    fork = engine.fork_sequence(seq, length)
    run.append(fork, tokens[::-1][:70])  # writes beyond the fork must not reach the original
    engine.truncate(seq, length)
    if length < len(tokens):
        assert np.array_equal(run.append(seq, tokens[length:]), whole[length:])
    engine.truncate(fork, length)
    if length < len(tokens):
        assert np.array_equal(run.append(fork, tokens[length:]), whole[length:])
    engine.free_sequence(fork)
    engine.free_sequence(seq)
    assert engine.free_tokens == free


def test_long_contexts_whatever_the_number_of_threads(tiny_model, runner):
    # More than one split of 512 positions, shared out over positions when threads outnumber the KV heads.
    path = tiny_model("qwen2", "Q4_0")
    rng = np.random.default_rng(3)
    tokens = rng.integers(0, 300, 1300).astype(np.int32)
    whole = runner(path, threads=1).logits(tokens)
    run = runner(path, threads=4)
    seq = run.engine.new_sequence()
    run.append(seq, tokens[:1290])
    steps = [run.append(seq, tokens[i : i + 1]) for i in range(1290, 1300)]
    run.engine.free_sequence(seq)
    assert np.array_equal(np.concatenate(steps), whole[1290:])
