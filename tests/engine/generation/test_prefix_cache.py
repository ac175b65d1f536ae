import numpy as np
import pytest

from engine.generation.prefix_cache import PrefixCache, common_prefix


@pytest.fixture
def backend(fakes):
    return fakes.Backend(kv_tokens=64, page=4)


def fill(backend, tokens):
    """A backend sequence that holds `tokens`."""
    seq = backend.new_sequence()
    rows = np.asarray(tokens, np.int32)
    backend.forward(np.full(len(rows), seq, np.int32), rows, np.zeros(len(rows), np.bool_))
    return seq


@pytest.mark.parametrize(
    ("a", "b", "length"),
    [([], [1], 0), ([1, 2], [1, 2], 2), ([1, 2], [1, 2, 3], 2), ([1, 5, 3], [1, 2, 3], 1)],
)
def test_common_prefix(a, b, length):
    a, b = np.array(a, np.int32), np.array(b, np.int32)
    assert common_prefix(a, b) == common_prefix(b, a) == length


def test_the_longest_match_of_all_sessions_is_forked(backend):
    cache = PrefixCache(backend)
    for session, tokens in (("a", [1, 2]), ("b", [1, 2, 3, 4, 5]), ("c", [1, 2, 3])):
        cache.keep(fill(backend, tokens), tokens, session)
    seq, length = cache.acquire([1, 2, 3, 4, 9], [])
    assert length == 4
    assert backend.sequences[seq].tokens == [1, 2, 3, 4]
    assert len(cache) == 3


def test_without_a_match_the_sequence_is_new(backend):
    cache = PrefixCache(backend)
    cache.keep(fill(backend, [1, 2]), [1, 2], "a")
    seq, length = cache.acquire([2, 1], [])
    assert length == 0
    assert backend.sequences[seq].tokens == []


def test_a_session_keeps_its_newest_sequence(backend):
    cache = PrefixCache(backend)
    cache.keep(fill(backend, [1, 2, 3]), [1, 2, 3], "a")
    cache.keep(fill(backend, [1, 7]), [1, 7], "a")
    assert [held.tokens for held in backend.sequences.values()] == [[1, 7]]


def test_a_request_cancelled_early_does_not_replace_what_continues_it(backend):
    cache = PrefixCache(backend)
    cache.keep(fill(backend, [1, 2, 3]), [1, 2, 3], "a")
    cache.keep(fill(backend, [1, 2]), [1, 2], "a")
    assert [held.tokens for held in backend.sequences.values()] == [[1, 2, 3]]


def test_requests_without_a_session_do_not_replace_each_other(backend):
    cache = PrefixCache(backend)
    cache.keep(fill(backend, [1, 2]), [1, 2], "")
    cache.keep(fill(backend, [3, 4]), [3, 4], "")
    assert len(cache) == 2


def test_eviction_takes_the_least_recently_used(backend):
    cache = PrefixCache(backend)
    for session, tokens in (("a", [1, 1]), ("b", [2, 2]), ("c", [3, 3])):
        cache.keep(fill(backend, tokens), tokens, session)
    cache.acquire([1, 1, 5], [])
    assert cache.evict_one()
    assert cache.evict_one()
    left = [kept.session for kept in cache._kept]
    assert left == ["a"]
    assert cache.evict_one()
    assert not cache.evict_one()


def test_the_number_of_kept_sequences_is_bounded(backend):
    cache = PrefixCache(backend, max_kept=2)
    for n in range(1, 5):
        cache.keep(fill(backend, [n]), [n], str(n))
    assert [held.tokens for held in backend.sequences.values()] == [[3], [4]]


def test_a_fork_that_finds_no_page_evicts_and_else_starts_afresh(backend):
    cache = PrefixCache(backend)
    cache.keep(fill(backend, [9] * 8), [9] * 8, "old")
    cache.keep(fill(backend, [1] * 56), [1] * 56, "new")
    seq, length = cache.acquire([1] * 54, [])
    assert (length, len(cache)) == (54, 1), "the older one gave its page"

    fill(backend, [5] * 4)
    assert backend.free_tokens == 0
    seq, length = cache.acquire([1] * 53, [])
    assert (length, len(cache)) == (0, 0)
    assert backend.sequences[seq].tokens == []
