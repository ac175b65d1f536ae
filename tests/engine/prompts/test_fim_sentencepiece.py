"""Infill prompts over SentencePiece vocabularies: where the blanks go, and that none appears or is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.prompts import FAMILIES, build_infill, detect_fim, heal, require_fim
from engine.tokenizer import StreamDecoder, Tokenizer
from engine.types import InfillRequest

BY_NAME = {family.name: family for family in FAMILIES}
SENTENCEPIECE = ("codellama", "codegemma", "codestral")
# Ids as the families publish them.
PUBLISHED = {"codellama": (32007, 32008, 32009), "codestral": (11, 13, None)}
HOLES = [
    ("def f(x):\n    ret", "urn x + 1", "\n\nprint(f(1))\n"),
    ("x = [\n", "    1,\n    2,\n", "]\n"),
    ("a =", "  b  ", ".c\n"),
    ("value = comp", "ute_to", "tal(3)\n"),
    ("s = '", "日本€ é", "'\n"),
    ("if a:", "\n\tb()", "\n"),
    ("    ", "    pass", "\n"),
    ("a", " ", "b"),
]


@pytest.fixture(scope="session", params=PUBLISHED)
def real(request, helpers, vocabularies):
    return request.param, Tokenizer.from_gguf(vocabularies.load(request.param, helpers))


@pytest.fixture(scope="session")
def toys(helpers):
    """name -> a small SentencePiece tokenizer with the family's markers; Gemma's wants no blank."""

    def make(family):
        specials = dict.fromkeys(family.markers, helpers.CONTROL)
        metadata = helpers.toy_sentencepiece(specials, add_space_prefix=family.name != "codegemma")
        return Tokenizer.from_gguf(metadata)

    return {name: make(BY_NAME[name]) for name in SENTENCEPIECE}


def build(tokenizer, prefix, suffix, budget=1000, *, healing=False):
    request = InfillRequest(prefix=prefix, suffix=suffix)
    return build_infill(request, tokenizer, require_fim(tokenizer), budget, healing=healing)


def between(ids, start, end):
    """ids after the marker start, to the marker end or to the end."""
    first = ids.index(start) + 1
    return ids[first : ids.index(end, first) if end in ids[first:] else len(ids)]


@pytest.mark.model
def test_markers_have_their_published_ids(real):
    name, tokenizer = real
    found = require_fim(tokenizer)
    assert found.family.name == name
    assert (found.prefix, found.suffix, found.middle) == PUBLISHED[name]
    assert {tokenizer.id_of(text) for text in found.family.stops} | {2} == found.stop_ids


@pytest.mark.model
@pytest.mark.oracle
@pytest.mark.parametrize(("prefix", "middle", "suffix"), HOLES)
def test_prompts_are_the_families_own(real, helpers, vocabularies, tmp_path, prefix, middle, suffix):
    """As both families' own code has it, the prefix is encoded as a text of its own, the suffix as what
    follows a smiley that is taken off again. llama.cpp encodes here."""
    name, tokenizer = real
    helpers.write_vocabulary(tmp_path / "vocabulary.gguf", vocabularies.load(name, helpers))
    theirs = helpers.LlamaCppVocabulary(tmp_path / "vocabulary.gguf")
    before = theirs.encode(prefix)
    after = theirs.encode("☺" + suffix)[len(theirs.encode("☺")) :]
    ids = build(tokenizer, prefix, suffix).ids
    if name == "codellama":
        assert ids == [1, 32007, *before, 32008, *after, 32009]
    else:
        assert ids == [1, 13, *after, 11, *before]


@pytest.mark.model
@pytest.mark.parametrize(("prefix", "middle", "suffix"), HOLES)
def test_a_middle_comes_out_as_it_went_in(real, prefix, middle, suffix):
    _, tokenizer = real
    whole = tokenizer.encode(f" {prefix}{middle}{suffix}")
    # The middle as a model writes it after the prefix: tokens of its own.
    decoder = StreamDecoder(tokenizer)
    pieces = [decoder.feed(token) for token in tokenizer.encode(middle)]
    assert "".join(pieces) + decoder.finish() == middle
    assert tokenizer.decode(whole) == f" {prefix}{middle}{suffix}"


@pytest.mark.model
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_any_hole_in_any_text(real, data):
    name, tokenizer = real
    text = data.draw(st.text(st.sampled_from("  \n\tab_(=éü日€😀"), min_size=1, max_size=40))
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first, len(text)))
    prefix, middle, suffix = text[:first], text[first:last], text[last:]
    found = require_fim(tokenizer)
    ids = build(tokenizer, prefix, suffix).ids
    ends = {"codellama": (found.suffix, found.middle), "codestral": (None, found.prefix)}[name]
    before = tokenizer.decode(between(ids, found.prefix, ends[0]))
    after = tokenizer.decode(between(ids, found.suffix, ends[1]))
    decoder = StreamDecoder(tokenizer)
    written = "".join(decoder.feed(token) for token in tokenizer.encode(middle)) + decoder.finish()
    assert before == (f" {prefix}" if prefix else "")
    assert written == middle
    assert after == (suffix or "\n")


@pytest.mark.parametrize("name", SENTENCEPIECE)
def test_the_blank_before_a_prefix(toys, name):
    tokenizer = toys[name]
    found = require_fim(tokenizer)
    assert found.family.name == name
    blank = "" if name == "codegemma" else " "
    end = found.suffix if name != "codestral" else None
    for prefix in ("self", "  self", "\nself"):
        ids = build(tokenizer, prefix, "self\n").ids
        assert tokenizer.decode(between(ids, found.prefix, end)) == blank + prefix
        assert tokenizer.decode(between(ids, found.suffix, found.middle or found.prefix)) == "self\n"


@pytest.mark.parametrize("name", SENTENCEPIECE)
def test_an_empty_prefix_has_no_blank(toys, name):
    tokenizer = toys[name]
    found = require_fim(tokenizer)
    assert between(build(tokenizer, "", "x\n").ids, found.prefix, found.suffix) in ([], [found.middle])


@pytest.mark.parametrize("name", SENTENCEPIECE)
def test_half_a_format_is_none(helpers, name):
    family = BY_NAME[name]
    for missing in (family.prefix, family.suffix):
        markers = [marker for marker in family.markers if marker != missing]
        metadata = helpers.toy_sentencepiece(dict.fromkeys(markers, helpers.CONTROL))
        assert detect_fim(Tokenizer.from_gguf(metadata)) is None


@pytest.mark.parametrize("name", SENTENCEPIECE)
@settings(deadline=None, max_examples=100)
@given(prefix=st.text(st.sampled_from("  \nself_(é日"), max_size=40), budget=st.integers(24, 200))
def test_healing_takes_away_what_it_gives_back(toys, name, prefix, budget):
    tokenizer = toys[name]
    found = require_fim(tokenizer)
    prompt = build(tokenizer, prefix, "\n", budget, healing=True)
    assert len(prompt.ids) <= budget
    shown = between(prompt.ids, found.prefix, found.suffix if name != "codestral" else None)
    spelled = b"".join(map(tokenizer.token_bytes, shown)) + prompt.forced_bytes
    lead = " " if prefix and name != "codegemma" else ""
    assert spelled == (lead + prefix[prompt.prefix_start :]).encode()


def test_healing_backs_up_over_a_blank_and_its_word(toys):
    tokenizer = toys["codestral"]
    ids, forced = heal(tokenizer.encode(" return self"), tokenizer)
    assert forced == b" self"
    assert tokenizer.decode(ids) == " return"
