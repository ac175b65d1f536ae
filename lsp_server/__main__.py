"""`python -m lsp_server` is the `hearth` command."""

from lsp_server.cli import main

if __name__ == "__main__":
    main()
