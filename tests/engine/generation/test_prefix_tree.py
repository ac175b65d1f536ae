"""The radix tree against a plain list of token sequences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engine.generation.prefix_tree import PrefixTree, common_prefix


def ids(*tokens):
    return np.array(tokens, np.int32)


@pytest.mark.parametrize(
    ("a", "b", "length"),
    [([], [1], 0), ([1, 2], [1, 2], 2), ([1, 2], [1, 2, 3], 2), ([1, 5, 3], [1, 2, 3], 1)],
)
def test_common_prefix(a, b, length):
    assert common_prefix(ids(*a), ids(*b)) == common_prefix(ids(*b), ids(*a)) == length


def test_prefixes_part_at_any_token():
    tree = PrefixTree()
    tree.insert(ids(1, 2, 3, 4), 10)
    tree.insert(ids(1, 2, 7), 11)
    assert tree.match(ids(1, 2, 3, 9))[0].kv == 10
    assert tree.match(ids(1, 2, 3, 9))[1] == 3
    assert tree.match(ids(1, 2, 7, 7))[0].kv == 11
    assert tree.match(ids(1, 2))[1] == 2
    assert tree.match(ids(5))[1] == 0


def test_a_continued_leaf_is_replaced_and_a_known_prefix_adds_nothing():
    tree = PrefixTree()
    tree.insert(ids(1, 2), 10)
    leaf, unused = tree.insert(ids(1, 2, 3), 11)
    assert (leaf.kv, unused, len(tree)) == (11, 10, 1)
    leaf, unused = tree.insert(ids(1, 2), 12)
    assert (leaf.kv, unused, len(tree)) == (11, 12, 1)


def test_the_oldest_is_the_least_recently_matched_or_inserted():
    tree = PrefixTree()
    for kv in (1, 2, 3):
        tree.insert(ids(kv, kv), kv)
    assert tree.oldest.kv == 1
    tree.match(ids(1, 1, 5))
    assert tree.oldest.kv == 2
    tree.insert(ids(2), 9)
    assert [leaf.kv for leaf in tree.leaves] == [3, 1, 2]


def test_what_a_removed_leaf_shared_stays_with_the_other_branch():
    tree = PrefixTree()
    tree.insert(ids(1, 2, 3), 10)
    other, _ = tree.insert(ids(1, 2, 4), 11)
    tree.remove(other)
    leaf, length = tree.match(ids(1, 2, 4))
    assert (leaf.kv, length, leaf.start) == (10, 2, 0)


def test_a_shortened_leaf_matches_less():
    tree = PrefixTree()
    leaf, _ = tree.insert(ids(1, 2, 3, 4), 10)
    tree.shorten(leaf, 2)
    assert tree.match(ids(1, 2, 3, 4))[1] == 2


class CountedTokens(np.ndarray):
    """Token ids that count how many of them were compared."""

    compared = 0

    def __ne__(self, other):
        CountedTokens.compared += len(self)
        return np.asarray(self) != np.asarray(other)


def test_a_lookup_costs_the_length_of_its_prompt_however_many_entries_there_are():
    costs = []
    for entries in (4, 400):
        tree = PrefixTree()
        for n in range(entries):
            tree.insert(np.r_[np.zeros(50), n, np.arange(50)].astype(np.int32).view(CountedTokens), n)
        CountedTokens.compared = 0
        assert tree.match(np.r_[np.zeros(50), 3, np.arange(20), 7].astype(np.int32))[1] == 71
        costs.append(CountedTokens.compared)
    assert costs[0] == costs[1] <= 110


paths = st.lists(st.integers(0, 2), min_size=1, max_size=7)


class TreeMachine(RuleBasedStateMachine):
    """held: what each sequence in the tree holds, as its owner would know it."""

    def __init__(self):
        super().__init__()
        self.tree = PrefixTree()
        self.held = {}
        self.used = 0

    @rule(tokens=paths)
    def insert(self, tokens):
        self.used += 1
        self.held[self.used] = tuple(tokens)
        leaf, unused = self.tree.insert(ids(*tokens), self.used)
        assert leaf in self.tree
        if unused is not None:
            gone = self.held.pop(unused)
            assert any(other[: len(gone)] == gone for other in self.held.values())

    @rule(tokens=paths)
    def match(self, tokens):
        leaf, length = self.tree.match(ids(*tokens))
        expected = max((common_prefix(ids(*held), ids(*tokens)) for held in self.held.values()), default=0)
        assert length == expected
        if length:
            assert self.held[leaf.kv][:length] == tuple(tokens[:length])
            assert list(self.tree.leaves)[-1] is leaf

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def remove(self, data):
        leaf = data.draw(st.sampled_from(list(self.tree.leaves)))
        self.tree.remove(leaf)
        assert leaf not in self.tree
        del self.held[leaf.kv]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def shorten(self, data):
        leaf = data.draw(st.sampled_from(list(self.tree.leaves)))
        length = data.draw(st.integers(leaf.start + 1, leaf.end))
        self.tree.shorten(leaf, length)
        self.held[leaf.kv] = self.held[leaf.kv][:length]

    @invariant()
    def leaves_hold_what_their_owner_knows(self):
        assert {leaf.kv: tuple(leaf.tokens.tolist()) for leaf in self.tree.leaves} == self.held

    @invariant()
    def no_node_is_without_need(self):
        def check(node):
            for first, child in node.children.items():
                assert child.parent is node
                assert child.start == node.end < child.end
                assert child.tokens[child.start] == first
                assert np.array_equal(child.tokens[: node.end], node.tokens)
                assert (child.kv >= 0) == (child in self.tree) == (not child.children)
                assert len(child.children) != 1
                check(child)

        check(self.tree._root)


def test_any_order_of_operations():
    run_state_machine_as_test(
        TreeMachine, settings=settings(max_examples=200, stateful_step_count=30, deadline=None)
    )


@given(st.lists(paths, max_size=12), paths)
def test_the_longest_prefix_is_found(entries, tokens):
    tree = PrefixTree()
    for kv, entry in enumerate(entries):
        tree.insert(ids(*entry), kv)
    assert tree.match(ids(*tokens))[1] == max(
        (common_prefix(ids(*entry), ids(*tokens)) for entry in entries), default=0
    )
