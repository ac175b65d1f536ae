"""The whole way: keys in Neovim, Hearth's own server and daemon, a real model, and the file on disk."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.editor, pytest.mark.model]
SOURCE = "def add(a, b):\n    \n\n\nprint(add(1, 2))\n"
STATUS = """
local client = vim.lsp.get_clients({ name = 'hearth' })[1]
local params = { command = 'hearth.status', arguments = {} }
local call = require('hearth.client').call
return call(client, 'request_sync', 'workspace/executeCommand', params, 5000, 0).result.text
"""


# daemon_home comes first: the editor is started in its environment.
def test_a_real_suggestion_is_shown_accepted_and_saved(
    daemon_home, bare, python_file: Callable[[str], Path], real_model: Callable[[str], Path]
) -> None:
    root = Path(__file__).resolve().parents[3]
    bare.lua(
        """
        local python, root, model = ...
        require('hearth').setup({
          cmd = { python, '-m', 'lsp_server', 'lsp' },
          cmd_env = { PYTHONPATH = root },
          settings = { mode = 'single', model = model },
        })
        vim.keymap.set('i', '<Tab>', '<Plug>(hearth-accept)')
        """,
        sys.executable,
        str(root),
        str(real_model("qwen2.5-coder-0.5b")),
    )
    path = python_file(SOURCE)
    bare.open(path)
    bare.wait(lambda: "The model is loaded." in bare.lua(STATUS), "the model")
    bare.keys("jAreturn")
    bare.wait(bare.visible, "a suggestion")
    shown = bare.screen[1]
    assert shown.startswith("    return")
    assert len(shown) > len("    return")
    assert path.read_text() == SOURCE
    bare.keys("<Tab><Esc>")
    bare.wait(lambda: bare.lines[1] == shown, "the suggestion in the buffer")
    bare.keys(":w<CR>")
    bare.wait(lambda: path.read_text() == SOURCE.replace("    \n", shown + "\n", 1), "saved")
    assert daemon_home.only_pid()
