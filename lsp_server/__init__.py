"""Hearth's language server: documents, completions and the `hearth` command line. It holds no model."""
