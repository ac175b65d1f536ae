"""Anthropic's API: messages and the counting of their tokens."""
