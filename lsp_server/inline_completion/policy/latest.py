"""A memory of the latest things, so that no session grows without end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import ItemsView
from typing import Generic, TypeVar

_CAPACITY = 128  # answers and documents older than that are no longer on any screen

T = TypeVar("T")


class Latest(Generic[T]):
    """A dictionary that drops what was set longest ago."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._items: OrderedDict[str, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def __setitem__(self, key: str, value: T) -> None:
        self._items[key] = value
        self._items.move_to_end(key)
        while len(self._items) > self._capacity:
            self._items.popitem(last=False)

    def get(self, key: str) -> T | None:
        return self._items.get(key)

    def pop(self, key: str) -> T | None:
        return self._items.pop(key, None)

    def items(self) -> ItemsView[str, T]:
        return self._items.items()
