"""Matchers as states to go forth and back in, and grammars that are refused in words."""

import json
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.constraints import GrammarCompiler, output_grammar
from engine.errors import RequestError
from engine.types import Constraint, ConstraintKind

OBJECT = output_grammar(Constraint(ConstraintKind.JSON_OBJECT))


def regex(source):
    return output_grammar(Constraint(ConstraintKind.REGEX, source))


def schema(value):
    source = value if isinstance(value, str) else json.dumps(value)
    return output_grammar(Constraint(ConstraintKind.JSON_SCHEMA, source))


def bits(matcher, n_vocab):
    return np.unpackbits(matcher.mask().view(np.uint8), bitorder="little", count=n_vocab).astype(bool)


def test_the_mask_is_what_may_come_next(tokenizer, compiler):
    matcher = compiler.compile(regex("[ab]c"), "pattern")
    allowed = np.flatnonzero(bits(matcher, tokenizer.vocab_size)).tolist()
    assert {tokenizer.decode([token]) for token in allowed} <= {"a", "b", "ac", "bc"}
    assert all(matcher.allows(token) for token in allowed)
    assert not matcher.allows(tokenizer.encode("c")[0])
    assert not matcher.allows(tokenizer.vocab_size + 1)


def test_end_tokens_are_allowed_only_when_complete(tokenizer, compiler):
    matcher = compiler.compile(regex("ab"), "pattern")
    ends = sorted(tokenizer.eos_ids)
    assert not matcher.is_complete
    assert not bits(matcher, tokenizer.vocab_size)[ends].any()
    for token in tokenizer.encode("ab"):
        matcher.accept(token)
    assert matcher.is_complete
    assert np.flatnonzero(bits(matcher, tokenizer.vocab_size)).tolist() == ends


def test_restricted_logits(tokenizer, compiler):
    matcher = compiler.compile(regex("a|b"), "pattern")
    a, b = tokenizer.encode("a")[0], tokenizer.encode("b")[0]
    # Models may have more rows than the tokenizer has tokens.
    logits = np.arange(tokenizer.vocab_size + 10, dtype=np.float32)
    restricted = matcher.restrict(logits)
    assert np.flatnonzero(np.isfinite(restricted)).tolist() == sorted([a, b])
    assert restricted[a] == logits[a]


def test_a_token_that_is_not_allowed(tokenizer, compiler):
    matcher = compiler.compile(regex("ab"), "pattern")
    with pytest.raises(RequestError, match="constraint"):
        matcher.accept(tokenizer.encode("z")[0])


TEXT = '{"a": [1, {"b": "cd\\n"}], "e": null}'


@given(st.lists(st.integers(0, 6), max_size=12))
def test_forth_and_back_is_the_same_as_straight(tokenizer, compiler, steps):
    tokens = tokenizer.encode(TEXT)
    matcher = compiler.compile(OBJECT, "schema")
    at = 0
    for number, step in enumerate(steps):
        if number % 2:
            matcher.rollback(min(step, at))
            at -= min(step, at)
        else:
            for token in tokens[at : at + step]:
                matcher.accept(token)
            at = min(at + step, len(tokens))
    straight = compiler.compile(OBJECT, "schema")
    for token in tokens[:at]:
        straight.accept(token)
    assert np.array_equal(matcher.mask(), straight.mask())
    assert matcher.is_complete == straight.is_complete


def test_back_over_the_end_token(tokenizer, compiler):
    matcher = compiler.compile(regex("ab?"), "pattern")
    matcher.accept(tokenizer.encode("a")[0])
    matcher.accept(min(tokenizer.eos_ids))
    matcher.rollback(1)
    assert matcher.allows(tokenizer.encode("b")[0])


def test_copies_are_independent(tokenizer, compiler):
    matcher = compiler.compile(regex("abc"), "pattern")
    a, b = tokenizer.encode("a")[0], tokenizer.encode("b")[0]
    matcher.accept(a)
    copy = matcher.copy()
    copy.accept(b)
    assert matcher.allows(b)
    assert not copy.allows(b)


def test_a_grammar_compiled_twice_starts_anew(tokenizer, compiler):
    first = compiler.compile(regex("ab"), "pattern")
    first.accept(tokenizer.encode("a")[0])
    assert compiler.compile(regex("ab"), "pattern").allows(tokenizer.encode("a")[0])


def test_matchers_may_change_threads(tokenizer, compiler):
    matcher = compiler.compile(regex("ab"), "pattern")
    done = []

    def work():
        matcher.accept(tokenizer.encode("a")[0])
        done.append(matcher.allows(tokenizer.encode("b")[0]))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_tags_that_the_file_calls_control_tokens_can_be_text(load_helper, tokenizer):
    end = tokenizer.id_of("<|im_start|>")
    tagged = GrammarCompiler(tokenizer, {"<|im_start|>"})
    assert tagged.compile(regex(r"<\|im_start\|>a"), "pattern").allows(end)
    plain = GrammarCompiler(tokenizer)
    assert not plain.compile(regex(r"<\|im_start\|>a"), "pattern").allows(end)
    assert not plain.compile(regex(r"(.|\n)*"), "pattern").allows(end)


def nested(depth):
    return '{"items": ' * depth + "{}" + "}" * depth


@pytest.mark.parametrize(
    ("grammar", "words"),
    [
        (lambda: schema({"type": "array", "uniqueItems": True}), "uniqueItems"),
        (lambda: schema({"if": {}, "then": {}}), "if, then"),
        (lambda: schema({"type": "string", "format": "moon-phase"}), "moon-phase"),
        (lambda: schema({"type": "bogus"}), "bogus"),
        (lambda: schema(False), "no value can match"),
        (lambda: schema("[1]"), "not a JSON object"),
        (lambda: schema("{"), "not JSON"),
        (lambda: schema({"$ref": "http://example.com/schema"}), "example.com"),
        (lambda: schema({"$ref": "#/$defs/none"}), "none"),
        (lambda: schema({"$ref": "#"}), "leads back to itself"),
        (
            lambda: schema(
                {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
            ),
            "leads back to itself",
        ),
        (lambda: schema({"type": "string", "pattern": "("}), "unclosed group"),
        (lambda: schema({"allOf": [{"type": "string"}, {"type": "integer"}]}), "incompatible"),
        (lambda: schema(nested(100)), "deeper than 64"),
        (lambda: schema(nested(100_000 // 20)), "deeper than 64"),
        (lambda: schema({"enum": list(range(30_000))}), "10000 values"),
        (lambda: schema({"description": "x" * 300_000}), "262144"),
        (lambda: regex("(("), "unclosed group"),
        (lambda: regex("(?=a)b"), "look-ahead"),
        (lambda: regex(""), "empty"),
        (lambda: regex("a" * 300_000), "262144"),
        (lambda: regex("((a{1000}){1000}){1000}"), "too many"),
        (lambda: regex(r"(a{1000}){1000}"), "too many"),
        (lambda: output_grammar(Constraint(ConstraintKind.LARK, "start: foo")), "foo"),
        (lambda: schema({"properties": {f"p{i}": {} for i in range(500)}}), "400 members"),
        (lambda: output_grammar(Constraint(ConstraintKind.LARK, "")), "start|empty"),
    ],
    ids=range(26),
)
def test_what_cannot_be_enforced_is_refused_in_words(compiler, grammar, words):
    with pytest.raises(RequestError, match=words) as error:
        compiler.compile(grammar(), "JSON schema")
    assert "\n" not in str(error.value)
    assert len(error.value.what) < 500


@pytest.mark.parametrize(
    "bomb",
    [
        {"type": "integer", "multipleOf": 99999989},
        {"type": "number", "multipleOf": 1.00000007},
        {"anyOf": [{"type": "integer", "multipleOf": 9973 - number} for number in range(40)]},
        {"allOf": [{"type": "integer", "multipleOf": 9973}, {"multipleOf": 9967}]},
    ],
)
def test_states_for_each_remainder_are_bounded(bomb):
    """Refused before it is compiled, which would take all memory."""
    with pytest.raises(RequestError, match="multipleOf"):
        schema(bomb)
    with pytest.raises(RequestError, match="%json"):
        output_grammar(Constraint(ConstraintKind.LARK, f"start: %json {json.dumps(bomb)}"))


@pytest.mark.parametrize(
    ("divisor", "right", "wrong"),
    [(1000, "3000", "3500"), (0.25, "1.75", "1.8"), (12, "144", "145"), (65536, "65536", "65537")],
)
def test_usual_multiples_are_enforced(tokenizer, compiler, divisor, right, wrong):
    grammar = schema({"type": "number", "multipleOf": divisor})
    for text, matches in ((right, True), (wrong, False)):
        matcher = compiler.compile(grammar, "JSON schema")
        for token in tokenizer.encode(text):
            if matcher.allows(token):
                matcher.accept(token)
            else:
                assert not matches
                break
        else:
            assert matcher.is_complete == matches


def test_a_property_may_be_called_multiple_of(compiler):
    properties = {"multipleOf": {"type": "integer"}}
    compiler.compile(schema({"type": "object", "properties": properties}), "JSON schema")


BOMBS = {
    "long arrays": schema({"type": "array", "minItems": 10**9, "items": {"type": "string"}}),
    "long strings": schema({"type": "string", "minLength": 10**8}),
    "nested counts": schema({"type": "string", "pattern": "((a{99}b?){99}c?){99}"}),
    "doubling": schema(
        {
            "$ref": "#/$defs/d0",
            "$defs": {
                **{
                    f"d{i}": {"type": "array", "items": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2}}
                    for i in range(50)
                },
                "d50": {"type": "null"},
            },
        }
    ),
    "intersections": schema(
        {
            "allOf": [
                {"anyOf": [{"properties": {f"p{i}{j}": {"type": "string"}}} for j in range(4)]}
                for i in range(10)
            ]
        }
    ),
    "wide": schema({"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(400)}}),
    "ambiguous": output_grammar(Constraint(ConstraintKind.LARK, 'start: a\na: a a | "x"')),
}


@pytest.mark.parametrize("grammar", BOMBS.values(), ids=BOMBS.keys())
@pytest.mark.timeout(60)
def test_schema_bombs_end(tokenizer, compiler, grammar):
    """Each is compiled and walked within limits, or refused in words."""
    try:
        matcher = compiler.compile(grammar, "JSON schema")
        for _ in range(200):
            token = int(np.flatnonzero(bits(matcher, tokenizer.vocab_size))[-1])
            if token in tokenizer.eos_ids:
                break
            matcher.accept(token)
    except RequestError:
        pass
