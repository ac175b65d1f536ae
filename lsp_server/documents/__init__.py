"""The server's own mirror of the editor's documents: exact text, line ends, positions and versions."""
