"""A real Neovim per test, driven over its RPC with real keys; the screen is read back from its grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvim
import pytest

PLUGIN = Path(__file__).resolve().parents[3] / "editors" / "neovim"
READ_SCREEN = """
local rows = {}
for row = 1, vim.o.lines do
  local cells = {}
  for column = 1, vim.o.columns do cells[column] = vim.fn.screenstring(row, column) end
  rows[row] = (table.concat(cells):gsub('%s+$', ''))
end
return rows
"""
READY = """
local client = vim.lsp.get_clients({ name = 'hearth', bufnr = 0 })[1]
return client ~= nil and client.initialized == true
"""


class Editor:
    """One running Neovim."""

    def __init__(self, nvim: pynvim.Nvim, wait: Callable[..., Any]) -> None:
        self.nvim = nvim
        self.wait = wait

    def lua(self, code: str, *args: Any) -> Any:
        return self.nvim.exec_lua(code, *args)

    def keys(self, keys: str) -> None:
        """Type keys, as at the keyboard."""
        self.nvim.input(keys)

    def open(self, path: Path) -> None:
        """Edit a file and wait until the server has it."""
        self.nvim.command(f"edit {path}")
        self.wait_ready()

    def wait_ready(self) -> None:
        self.wait(lambda: self.lua(READY), "server attached")

    @property
    def lines(self) -> list[str]:
        return self.nvim.current.buffer[:]

    @property
    def cursor(self) -> tuple[int, int]:
        """1-based row, 0-based byte column."""
        return tuple(self.nvim.api.win_get_cursor(0))

    @property
    def screen(self) -> list[str]:
        self.nvim.command("redraw")
        return self.lua(READ_SCREEN)

    @property
    def messages(self) -> str:
        return self.nvim.api.exec2("messages", {"output": True})["output"]

    def wait_row(self, row: int, text: str) -> None:
        """Wait until a screen row (1-based) reads `text`, trailing blanks aside."""
        self.wait_rows(row, [text])

    def wait_rows(self, first: int, rows: list[str]) -> None:
        """Wait until the screen reads `rows` from row `first` on."""
        seen: list[str] = []

        def equal() -> bool:
            seen[:] = self.screen[first - 1 : first - 1 + len(rows)]
            return seen == rows

        try:
            self.wait(equal, "screen")
        except pytest.fail.Exception:
            pytest.fail(f"the screen never read {rows}; it reads {seen}; messages: {self.messages}")

    def wait_lines(self, lines: list[str]) -> None:
        try:
            self.wait(lambda: self.lines == lines, "buffer")
        except pytest.fail.Exception:
            pytest.fail(f"the buffer never read {lines}; it reads {self.lines}; messages: {self.messages}")

    def visible(self) -> bool:
        return self.lua("return require('hearth').visible()")

    def status(self) -> dict[str, Any]:
        return self.lua("return require('hearth').status()")

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notice to the server, outside the plugin."""
        self.lua("require('hearth.client').notify(...)", method, params or {"from": "test"})


@pytest.fixture(params=["0.10", "0.11", "0.12"])
def bare(
    request: pytest.FixtureRequest, neovims: dict[str, str], wait: Any, tmp_path: Path
) -> Iterator[Editor]:
    """Neovim with the plugin on its path; setup() not called."""
    if request.param not in neovims:
        pytest.skip("Neovim 0.10 is fetched as a package of Debian, and this is another system")
    argv = [neovims[request.param], "--clean", "-n", "--embed", "--headless", "--cmd", f"set rtp^={PLUGIN}"]
    # Looking for a Python provider costs seconds and is no part of this.
    environment = f"let $XDG_STATE_HOME='{tmp_path}/state' | let g:loaded_python3_provider = 0"
    nvim = pynvim.attach("child", argv=[*argv, "--cmd", environment])
    editor = Editor(nvim, wait)
    nvim.command("set noswapfile noshowmode noruler laststatus=0 shortmess+=I fillchars=eob:\\ ")
    nvim.command(f"cd {tmp_path}")
    yield editor
    nvim.close()


@pytest.fixture
def editor(bare: Editor, server: Any) -> Editor:
    """Neovim with the plugin set up for the scripted server, and the maps a user might make."""
    started = bare.lua("return require('hearth').setup({ cmd = ... })", server.command)
    assert started is True
    bare.lua(
        """
        vim.keymap.set('i', '<Tab>', function()
          return require('hearth').accept() and '' or '<Tab>'
        end, { expr = true })
        vim.keymap.set('i', '<C-l>', '<Plug>(hearth-accept-line)')
        vim.keymap.set('i', '<C-k>', '<Plug>(hearth-accept-word)')
        vim.keymap.set('i', '<C-g>', '<Plug>(hearth-dismiss)')
        vim.keymap.set('i', '<C-j>', '<Plug>(hearth-next)')
        vim.keymap.set('i', '<C-b>', '<Plug>(hearth-complete)')
        """
    )
    return bare


@pytest.fixture
def python_file(tmp_path: Path) -> Callable[[str], Path]:
    """Make a Python file with exactly this text."""

    def make(text: str, name: str = "a.py") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return make
