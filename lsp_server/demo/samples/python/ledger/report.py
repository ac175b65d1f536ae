"""What a ledger adds up to."""

from __future__ import annotations

from collections import defaultdict

from .entries import Entry, format_cents


def balance(entries: list[Entry], account: str) -> int:
    """Cents in one account."""
    return sum(entry.cents for entry in entries if entry.account == account)


def balances(entries: list[Entry]) -> dict[str, int]:
    """Cents in every account, by name."""
    totals: defaultdict[str, int] = defaultdict(int)
    for entry in entries:
        totals[entry.account] += entry.cents
    return dict(sorted(totals.items()))


def month_of(entries: list[Entry], year: int, month: int) -> list[Entry]:
    """The entries of one month."""
    return [entry for entry in entries if entry.day.year == year and entry.day.month == month]


def largest(entries: list[Entry], count: int = 5) -> list[Entry]:
    """The entries with the largest amounts, in or out."""
    return sorted(entries, key=lambda entry: abs(entry.cents), reverse=True)[:count]


def as_table(entries: list[Entry]) -> str:
    """A line for each account: its name and its balance."""
    totals = balances(entries)
    width = max((len(account) for account in totals), default=0)
    lines = []
    for account, cents in totals.items():
        lines.append(f"{account:<{width}}  {format_cents(cents):>12}")
    return "\n".join(lines)
