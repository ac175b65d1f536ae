"""A radix tree over token ids: which sequences of the backend hold which prefixes.

Prefixes may part at any token, not only where a KV page ends. Each leaf owns one sequence of the backend,
which holds all tokens from the root to the leaf; what lies above a fork in the road is held by every leaf
below it, for sequences share whole pages. So the tree has no pages to count: freeing a leaf frees what it
alone held, and whatever another branch stands on stays.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]


@dataclass(eq=False, slots=True)
class Node:
    """The tokens [start, len(tokens)) between its parent and itself.

    tokens: all tokens from the root, so that neither splitting nor joining edges copies any.
    kv: the backend's sequence; leaves have one, other nodes have at least two children instead.
    session: of a leaf, whose next request replaces it; "" when nobody's may.
    saved: how many of a leaf's chunks have been offered to the disk; see `disk_tier`.
    """

    tokens: Tokens
    start: int
    parent: Node | None
    kv: int = -1
    session: str = ""
    saved: int = 0
    children: dict[int, Node] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return len(self.tokens)


def common_prefix(a: Tokens, b: Tokens) -> int:
    """How many leading tokens a and b share."""
    n = min(len(a), len(b))
    different = np.flatnonzero(a[:n] != b[:n])
    return int(different[0]) if len(different) else n


class PrefixTree:
    """Leaves in order of use; the tree frees no sequence itself, its owner does."""

    def __init__(self) -> None:
        self._root = Node(np.empty(0, np.int32), 0, None)
        self._leaves: OrderedDict[Node, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._leaves)

    @property
    def leaves(self) -> list[Node]:
        """The least recently used first."""
        return list(self._leaves)

    @property
    def oldest(self) -> Node | None:
        """The least recently used leaf."""
        return next(iter(self._leaves), None)

    def match(self, tokens: Tokens) -> tuple[Node, int]:
        """How many leading tokens the tree knows, and a leaf that holds them; it counts as used now.

        Takes time proportional to the tokens and to the depth of the tree below them, whatever else it holds.
        An empty tree gives its root and 0.
        """
        node, length = self._descend(tokens)
        if length == 0:
            return self._root, 0
        while node.children:
            # The newest branch, which is evicted last.
            node = next(reversed(node.children.values()))
        self._leaves.move_to_end(node)
        return node, length

    def insert(self, tokens: Tokens, kv: int) -> tuple[Node, int | None]:
        """Add a sequence that holds `tokens` (at least one); it counts as used now.

        Returns a leaf that holds them, and a sequence that the tree has no use for: the given one where the
        tree knew all tokens, or one that the given one continues.
        """
        node, length = self._descend(tokens)
        if length == len(tokens):
            leaf, _ = self.match(tokens)
            return leaf, kv
        if length == node.end and node.kv >= 0:
            replaced, node.kv = node.kv, kv
            node.tokens = tokens
            self._leaves.move_to_end(node)
            return node, replaced
        parent = node if length == node.end else self._split(node, length)
        leaf = Node(tokens, length, parent, kv)
        parent.children[int(tokens[length])] = leaf
        self._leaves[leaf] = None
        return leaf, None

    def shorten(self, leaf: Node, length: int) -> None:
        """Forget the leaf's tokens from `length` on, which must leave some of its own."""
        assert leaf.start < length <= leaf.end  # noqa: S101 - else another leaf would hold the same tokens
        leaf.tokens = leaf.tokens[:length]

    def remove(self, leaf: Node) -> None:
        """Forget a leaf; its parent joins the one other child, if no more are left."""
        del self._leaves[leaf]
        parent = leaf.parent
        assert parent is not None  # noqa: S101 - the root is no leaf
        del parent.children[int(leaf.tokens[leaf.start])]
        if parent.parent is not None and len(parent.children) == 1:
            (child,) = parent.children.values()
            self._put_in_place_of(parent, child)

    def __contains__(self, leaf: Node) -> bool:
        return leaf in self._leaves

    def _descend(self, tokens: Tokens) -> tuple[Node, int]:
        """The deepest node whose edge the tokens enter, and how many of them match down to there."""
        node = self._root
        while node.end < len(tokens):
            child = node.children.get(int(tokens[node.end]))
            if child is None:
                return node, node.end
            length = child.start + common_prefix(child.tokens[child.start :], tokens[child.start :])
            if length < child.end:
                return child, length
            node = child
        return node, node.end

    def _split(self, node: Node, length: int) -> Node:
        """A new node at `length`, in the middle of the node's edge."""
        middle = Node(node.tokens[:length], node.start, node.parent)
        self._put_in_place_of(node, middle)
        middle.children[int(node.tokens[length])] = node
        node.start, node.parent = length, middle
        return middle

    def _put_in_place_of(self, old: Node, new: Node) -> None:
        new.start, new.parent = old.start, old.parent
        assert old.parent is not None  # noqa: S101 - the root stays
        old.parent.children[int(new.tokens[new.start])] = new
