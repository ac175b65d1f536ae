"""A small household ledger: entries in a CSV file, balances and monthly reports."""
