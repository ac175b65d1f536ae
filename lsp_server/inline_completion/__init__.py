"""Inline completion: from a request of the editor to items it can show."""
