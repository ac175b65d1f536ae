"""Run the engine with another order of prefix and suffix than its families' own, to compare the two."""

from __future__ import annotations

from dataclasses import replace

from engine.prompts import families
from engine.prompts.families import FimOrder


def use(order: FimOrder) -> None:
    """From now on, every family that knows this order uses it; for models loaded later, in this process."""
    families.FAMILIES = tuple(
        replace(family, order=order) if order in family.orders else family for family in families.FAMILIES
    )
