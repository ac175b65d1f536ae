"""Commands that make every published number."""
