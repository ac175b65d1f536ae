"""What requests leave to each other: the longest prefix is found, the oldest ends go first."""

import numpy as np
import pytest

from engine.generation.prefix_cache import EVICTED_TOKENS, Held, PrefixCache


@pytest.fixture
def backend(fakes):
    return fakes.Backend(kv_tokens=64, page=4)


def ids(tokens):
    return np.array(tokens, np.int32)


def fill(backend, tokens):
    """A backend sequence that holds `tokens`."""
    seq = backend.new_sequence()
    rows = np.asarray(tokens, np.int32)
    backend.forward(np.full(len(rows), seq, np.int32), rows, np.zeros(len(rows), np.bool_))
    return seq


def keep(cache, backend, tokens, session="", **how):
    cache.keep(fill(backend, tokens), ids(tokens), session, **how)


def serve(cache, backend, tokens, session=""):
    """What a request does: continue what is known, compute the rest, leave it. Tokens that were known."""
    kv, known = cache.acquire(ids(tokens), [])
    new = ids(tokens[known:])
    while len(new):
        try:
            backend.forward(np.full(len(new), kv, np.int32), new, np.zeros(len(new), np.bool_))
            break
        except MemoryError:
            assert cache.evict_one()
    cache.keep(kv, ids(tokens), session)
    return known


def held(backend):
    return [state.tokens for state in backend.sequences.values()]


def test_the_longest_match_of_all_sessions_is_forked(backend):
    cache = PrefixCache(backend)
    for session, tokens in (("a", [1, 2]), ("b", [1, 2, 3, 4, 5]), ("c", [1, 2, 3])):
        keep(cache, backend, tokens, session)
    seq, length = cache.acquire(ids([1, 2, 3, 4, 9]), [])
    assert length == 4
    assert backend.sequences[seq].tokens == [1, 2, 3, 4]


def test_without_a_match_the_sequence_is_new(backend):
    cache = PrefixCache(backend)
    keep(cache, backend, [1, 2], "a")
    seq, length = cache.acquire(ids([2, 1]), [])
    assert length == 0
    assert backend.sequences[seq].tokens == []
    assert (cache.counts.lookups, cache.counts.hits) == (1, 0)


def test_a_live_request_is_forked_where_it_knows_more(backend):
    cache = PrefixCache(backend)
    keep(cache, backend, [1, 2])
    live = Held(fill(backend, [1, 2, 3, 4]), ids([1, 2, 3, 4]))
    seq, length = cache.acquire(ids([1, 2, 3, 9]), [live])
    assert (backend.sequences[seq].tokens, length) == ([1, 2, 3], 3)


def test_a_session_keeps_its_newest_sequence(backend):
    cache = PrefixCache(backend)
    keep(cache, backend, [1, 2, 3], "a")
    keep(cache, backend, [1, 7], "a")
    assert held(backend) == [[1, 7]]


def test_a_request_cancelled_early_does_not_replace_what_continues_it(backend):
    cache = PrefixCache(backend)
    keep(cache, backend, [1, 2, 3], "a")
    keep(cache, backend, [1, 2], "a", complete=False)
    assert held(backend) == [[1, 2, 3]]


def test_a_request_cancelled_early_only_replaces_its_like(backend):
    cache = PrefixCache(backend)
    keep(cache, backend, [1, 2, 3, 4, 5], "a")
    keep(cache, backend, [1, 2], "a", complete=False)
    keep(cache, backend, [1, 6], "a", complete=False)
    keep(cache, backend, [1, 7], "a", complete=False)
    assert held(backend) == [[1, 2, 3, 4, 5], [1, 7]]
    keep(cache, backend, [1, 8], "a")
    assert held(backend) == [[1, 8]]


def test_requests_without_a_session_do_not_replace_each_other(backend):
    cache = PrefixCache(backend)
    keep(cache, backend, [1, 2])
    keep(cache, backend, [3, 4])
    assert len(cache) == 2


@pytest.mark.parametrize("other", ["b", ""])
def test_a_session_does_not_replace_what_another_uses_too(backend, other):
    cache = PrefixCache(backend)
    keep(cache, backend, [1, 2, 3], "a")
    keep(cache, backend, [1, 2, 3], other)
    keep(cache, backend, [1, 9], "a")
    assert held(backend) == [[1, 2, 3], [1, 9]]
    keep(cache, backend, [1, 8], "a")
    assert held(backend) == [[1, 2, 3], [1, 8]]


def test_a_session_does_not_replace_what_another_continued(backend):
    cache = PrefixCache(backend)
    keep(cache, backend, [1, 2], "a")
    keep(cache, backend, [1, 2, 3], "b")
    keep(cache, backend, [1, 9], "a")
    assert held(backend) == [[1, 2, 3], [1, 9]]


def test_eviction_takes_the_least_recently_used(backend):
    cache = PrefixCache(backend)
    for session, tokens in (("a", [1, 1]), ("b", [2, 2]), ("c", [3, 3])):
        keep(cache, backend, tokens, session)
    backend.free_sequence(cache.acquire(ids([1, 1, 5]), [])[0])
    assert cache.evict_one()
    assert cache.evict_one()
    assert held(backend) == [[1, 1]]
    assert cache.evict_one()
    assert not cache.evict_one()
    assert cache.counts.evictions == 3


def test_eviction_takes_the_end_of_a_long_sequence_first(fakes):
    backend = fakes.Backend(kv_tokens=1024, page=4, context_tokens=1024)
    cache = PrefixCache(backend)
    tokens = [1] * (2 * EVICTED_TOKENS + 10)
    keep(cache, backend, tokens)
    lengths = []
    while cache.evict_one():
        lengths.append(len(held(backend)[0]) if held(backend) else 0)
    assert lengths == [2 * EVICTED_TOKENS, EVICTED_TOKENS, 0]


def test_issue_452_what_a_live_conversation_stands_on_is_not_evicted(backend):
    """The shared beginning is older than anything else, and yet all that came after it goes first."""
    cache = PrefixCache(backend)
    system = [9] * 8
    for turn in range(1, 4):
        keep(cache, backend, [*system, *[turn] * 8], str(turn))
    conversation = [*system, *[2] * 8]
    backend.free_sequence(cache.acquire(ids([*conversation, 5]), [])[0])
    while len(cache) > 1:
        assert cache.evict_one()
    assert cache.acquire(ids([*conversation, 5]), [])[1] == len(conversation)


def test_issues_492_and_493_the_tools_part_survives_many_turns_of_an_agent(fakes):
    """The pool holds eight such requests, and two dozen come: the tools, and each turn, are computed once."""
    backend = fakes.Backend(kv_tokens=128, page=4)
    cache = PrefixCache(backend)
    tools = [9] * 12
    conversation = [*tools, 1]
    serve(cache, backend, conversation, "agent")
    for turn in range(2, 8):
        for n in range(3):
            assert serve(cache, backend, [*tools, 40 + turn, *[n] * 7]) >= len(tools)
        before = len(conversation)
        conversation += [turn] * 4
        assert serve(cache, backend, conversation, "agent") == before
    assert cache.counts.evictions > 5


def test_issue_665_the_point_of_return_moves_along_under_pressure(backend):
    """In a pool that holds little more than the conversation, each turn continues the one before."""
    cache = PrefixCache(backend)
    conversation = [1] * 8
    serve(cache, backend, conversation, "chat")
    for turn in range(10):
        serve(cache, backend, [20 + turn] * 8)
        before = len(conversation)
        conversation += [2] * 4
        assert serve(cache, backend, conversation, "chat") == before
    assert cache.counts.evictions > 5


def test_issue_614_the_last_turn_is_continued_in_place(backend):
    """No page of the conversation is copied or computed again, but for the one that its end lies in."""
    cache = PrefixCache(backend)
    keep(cache, backend, [1] * 10, "chat")
    free = backend.free_tokens
    kv, length = cache.acquire(ids([1] * 10 + [2] * 6), [])
    assert length == 10
    assert backend.free_tokens == free
    backend.forward(np.full(6, kv, np.int32), ids([2] * 6), np.zeros(6, np.bool_))
    cache.keep(kv, ids([1] * 10 + [2] * 6), "chat")
    assert backend.kv_tokens - backend.free_tokens == 16


def test_a_fork_that_finds_no_page_evicts_and_else_gives_up(backend):
    cache = PrefixCache(backend)
    keep(cache, backend, [9] * 8, "old")
    keep(cache, backend, [1] * 56, "new")
    forks = []

    def copying(seq, length, fork=backend.fork_sequence):
        if backend.free_tokens == 0:
            raise MemoryError
        forks.append(length)
        return fork(seq, length)

    backend.fork_sequence = copying
    _, length = cache.acquire(ids([1] * 54), [])
    assert (length, len(cache), forks) == (54, 1, [54]), "the older one gave its page"
    fill(backend, [5] * 8)
    seq, length = cache.acquire(ids([1] * 53), [])
    assert (length, len(cache)) == (0, 0)
    assert backend.sequences[seq].tokens == []

    def none_left():
        raise MemoryError

    backend.new_sequence = none_left
    with pytest.raises(MemoryError):
        cache.acquire(ids([1]), [])


def test_what_sessions_left_is_forgotten_with_their_leaves(backend):
    cache = PrefixCache(backend)
    for n in range(100):
        keep(cache, backend, [1 + n % 40, n // 40], str(n))
        while len(cache) > 4:
            cache.evict_one()
    assert len(cache._latest) <= 4
    cache.clear()
    assert cache._latest == {}
    assert backend.sequences == {}
    assert backend.free_tokens == backend.kv_tokens
