-- Telling the server where the user works, so that it can make that place warm before a key is pressed, and that
-- it may rest when the user works elsewhere.
local client = require('hearth.client')

local M = {}

local method = 'textDocument/didFocus'
-- A cursor on its way somewhere is not worth a notice.
local rest_ms = 150
local timer = assert(vim.uv.new_timer())

--- The current buffer has the focus; for one that the server does not know, no document has it.
function M.gained()
  local buf = vim.api.nvim_get_current_buf()
  local target = client.for_buffer(buf)
  client.notify(method, target and client.position(buf, target) or vim.empty_dict())
end

--- The cursor moved outside insert mode.
function M.moved()
  timer:stop()
  timer:start(rest_ms, 0, vim.schedule_wrap(function()
    if client.for_buffer(vim.api.nvim_get_current_buf()) then
      M.gained()
    end
  end))
end

--- The focus left Neovim.
function M.lost()
  timer:stop()
  client.notify(method, vim.empty_dict())
end

return M
