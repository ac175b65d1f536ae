"""The prompts and the arithmetic of the prefix cache's bench."""

import pytest

from bench.prefix_cache import KINDS, TAIL_TOKENS, prompts, summary


def test_a_rounds_requests_share_the_prefix_and_nothing_after_it_and_rounds_share_nothing():
    rounds = prompts(list(range(1000)), 200, 3)
    assert len(rounds) == 3
    for requests in rounds:
        assert len(requests) == len(KINDS)
        assert len({request[:200] for request in requests}) == 1
        assert len({request[200] for request in requests}) == 3
        assert {len(request) for request in requests} == {200 + TAIL_TOKENS}
    assert len({requests[0][0] for requests in rounds}) == 3


def test_too_little_text_is_said():
    with pytest.raises(ValueError, match="3 rounds of 400 tokens need more"):
        prompts(list(range(1000)), 400, 3)


def test_shares_are_of_the_cold_median():
    rounds = [{"cold": 10.0, "warm": 0.1, "restart": 1.0}, {"cold": 20.0, "warm": 0.3, "restart": 2.0}] * 2
    rounds.append({"cold": 20.0, "warm": 0.2, "restart": 1.0})
    result = summary(rounds)
    assert (result["cold"], result["warm"], result["restart"]) == (20.0, 0.2, 1.0)
    assert (result["warm_share"], result["restart_share"]) == (0.01, 0.05)
