"""Hearth's resident engine: the model, its caches and every generation policy."""
