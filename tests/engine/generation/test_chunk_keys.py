"""Keys of chunks: whatever changes the bytes changes the key, and nothing else does."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.generation import chunk_keys as module
from engine.generation.chunk_keys import Layout, chunk_keys

LAYOUT = Layout("a" * 64, "f16", 64, 1024)


def test_only_whole_chunks_have_keys():
    for length, chunks in ((0, 0), (3, 0), (4, 1), (7, 1), (8, 2)):
        assert len(chunk_keys(b"r", np.arange(length, dtype=np.int32), 4)) == chunks


def test_issue_361_a_model_of_the_same_shape_but_other_content_has_other_keys():
    assert LAYOUT.root_key() != replace(LAYOUT, model_sha256="b" * 64).root_key()


def test_every_part_of_the_layout_and_the_arithmetic_counts(monkeypatch):
    keys = {LAYOUT.root_key()}
    for change in ({"kv_format": "f32"}, {"page_tokens": 32}, {"page_bytes": 2048}):
        keys.add(replace(LAYOUT, **change).root_key())
    monkeypatch.setattr(module, "NUMERICS_VERSION", module.NUMERICS_VERSION + 1)
    keys.add(LAYOUT.root_key())
    monkeypatch.setattr(module, "CHUNK_PAGES", module.CHUNK_PAGES + 1)
    keys.add(LAYOUT.root_key())
    assert len(keys) == 6


def test_keys_stay_what_they_were():
    """A changed key would orphan every user's files without raising a version."""
    assert LAYOUT.root_key().hex()[:16] == "1475484d7324189a"
    assert chunk_keys(LAYOUT.root_key(), np.arange(4, dtype=np.int32), 4)[0].hex()[:16] == "c7c6abb4670be20b"


tokens = st.lists(st.integers(0, 2), max_size=12).map(lambda ids: np.array(ids, np.int32))


@given(tokens, tokens)
def test_chunks_share_keys_exactly_as_far_as_their_tokens_agree_from_the_start(a, b):
    for i, (x, y) in enumerate(zip(chunk_keys(b"r", a, 3), chunk_keys(b"r", b, 3), strict=False)):
        assert (x == y) == np.array_equal(a[: 3 * (i + 1)], b[: 3 * (i + 1)])
