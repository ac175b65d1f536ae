"""Drawing under a constraint gives what masking every time would give."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.constraints import GrammarCompiler, output_grammar
from engine.errors import HearthError, RequestError
from engine.generation.drawing import MAX_TOP_LOGPROBS, TokenDrawer
from engine.sampling import Sampler, logprob
from engine.types import Constraint, ConstraintKind, SamplingParams

OBJECT = output_grammar(Constraint(ConstraintKind.JSON_OBJECT))


@pytest.fixture(scope="module")
def tokenizer(prompting_for):
    return prompting_for()._tokenizer


@pytest.fixture(scope="module")
def matcher(tokenizer):
    compiler = GrammarCompiler(tokenizer)
    return lambda: compiler.compile(OBJECT, "schema")


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**31),
    temperature=st.sampled_from([0.0, 0.0, 1.0]),
    penalty=st.sampled_from([1.0, 1.5]),
)
def test_as_with_a_mask_at_every_token(tokenizer, matcher, seed, temperature, penalty):
    params = SamplingParams(temperature=temperature, seed=seed, repetition_penalty=penalty)
    drawer = TokenDrawer(Sampler(params), tokenizer, matcher=matcher())
    masked, state = Sampler(params), matcher()
    random = np.random.default_rng(seed)
    history = []
    for _ in range(20):
        row = random.normal(size=tokenizer.vocab_size).astype(np.float32) * 5
        token, value = drawer.draw(row, history)
        expected = masked.sample(state.restrict(row), history).token
        if temperature == 0 and state.allows(likeliest := Sampler(params).sample(row, history).token):
            # Where the grammar leaves one text only, the mask may have but one of its spellings.
            assert expected == likeliest or row[expected] < row[likeliest]
            expected = likeliest
        assert token == expected
        assert value == logprob(row, token), "of the model, not of the constraint"
        if token in tokenizer.eos_ids:
            break
        state.accept(token)
        history.append(token)


def test_a_forced_token_moves_the_constraint(tokenizer, matcher):
    drawer = TokenDrawer(Sampler(SamplingParams()), tokenizer, matcher=matcher())
    row = np.zeros(tokenizer.vocab_size, np.float32)
    for text in ("{", "}"):
        token = tokenizer.encode(text)[0]
        assert drawer.force(row, token) == (token, logprob(row, token))
    assert drawer.draw(row, [])[0] in tokenizer.eos_ids
    with pytest.raises(HearthError):
        drawer.force(row, tokenizer.encode("{")[0])


@pytest.mark.parametrize("top", [-1, MAX_TOP_LOGPROBS + 1])
def test_too_many_alternatives(tokenizer, top):
    with pytest.raises(RequestError, match="top_logprobs"):
        TokenDrawer(Sampler(SamplingParams()), tokenizer, top=top)


def test_entries(tokenizer):
    row = np.random.default_rng(1).normal(size=tokenizer.vocab_size).astype(np.float32)
    assert TokenDrawer(Sampler(SamplingParams()), tokenizer).entry(row, 5) == ()
    (entry,) = TokenDrawer(Sampler(SamplingParams()), tokenizer, top=4).entry(row, 5)
    assert (entry.token, entry.bytes, entry.logprob) == (5, tokenizer.token_bytes(5), logprob(row, 5))
    assert [other.token for other in entry.top] == np.argsort(-row)[:4].tolist()
    assert [other.logprob for other in entry.top] == pytest.approx(
        [logprob(row, other.token) for other in entry.top]
    )
