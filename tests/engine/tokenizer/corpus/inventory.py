"""Stock keeping for a small shop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Item:
    sku: str
    name: str
    price_cents: int
    tags: set[str] = field(default_factory=set)

    @property
    def price(self) -> str:
        return f"{self.price_cents / 100:.2f} €"


class Inventory:
    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._counts: defaultdict[str, int] = defaultdict(int)

    def add(self, item: Item, count: int = 1) -> None:
        if count <= 0:
            raise ValueError(f"count must be positive, not {count!r}")
        self._items.setdefault(item.sku, item)
        self._counts[item.sku] += count

    def remove(self, sku: str, count: int = 1) -> bool:
        # Never below zero: a sale of what is not there is refused.
        if self._counts[sku] < count:
            return False
        self._counts[sku] -= count
        return True

    def search(self, text: str) -> Iterator[tuple[Item, int]]:
        needle = text.casefold()
        for sku, item in sorted(self._items.items()):
            if needle in item.name.casefold() or needle in item.tags:
                yield item, self._counts[sku]

    def value(self) -> int:
        return sum(item.price_cents * self._counts[sku] for sku, item in self._items.items())


if __name__ == "__main__":
    shop = Inventory()
    shop.add(Item("A-1", "Käse", 499, {"food", "冷蔵"}), 3)
    print([(item.name, n) for item, n in shop.search("käse")], shop.value())
