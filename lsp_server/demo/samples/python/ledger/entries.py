"""Ledger entries and the CSV file that holds them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import date
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One booking. Amounts are whole cents, so that sums are exact."""

    day: date
    account: str
    cents: int
    note: str = ""


def parse_cents(text: str) -> int:
    """Read an amount such as "12.50" or "-3" as cents."""
    sign = -1 if text.startswith("-") else 1
    whole, _, fraction = text.lstrip("+-").partition(".")
    return sign * (int(whole or 0) * 100 + int(fraction.ljust(2, "0")[:2]))


def format_cents(cents: int) -> str:
    """Write cents as an amount with two decimals."""
    sign = "-" if cents < 0 else ""
    whole, fraction = divmod(abs(cents), 100)
    return f"{sign}{whole}.{fraction:02d}"


def load(path: Path) -> list[Entry]:
    """Every entry of the file, oldest first."""
    entries = []
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            day = date.fromisoformat(row["day"])
            entries.append(Entry(day, row["account"], parse_cents(row["amount"]), row["note"]))
    return sorted(entries, key=lambda entry: entry.day)


def save(path: Path, entries: list[Entry]) -> None:
    """Write the entries to the file, replacing it."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["day", "account", "amount", "note"])
        for entry in entries:
            writer.writerow([entry.day.isoformat(), entry.account, format_cents(entry.cents), entry.note])
