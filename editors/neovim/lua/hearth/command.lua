-- The subcommands of :Hearth.
local client = require('hearth.client')
local config = require('hearth.config')

local M = {}

local states = {
  off = 'The server is not running; it starts with the first file that it is for.',
  missing = 'The server is not installed, or not where setup() says.',
  starting = 'The server is starting.',
  running = 'The server is running.',
  restarting = 'The server stopped and is being started again.',
  failed = 'The server stopped too often and stays off.',
}

---@param target vim.lsp.Client
---@param name string a command of the server whose result is { text = ... }
---@param arguments any[]
---@param show fun(text: string)
local function ask(target, name, arguments, show)
  local params = { command = name, arguments = arguments }
  client.call(target, 'request', 'workspace/executeCommand', params, function(err, result)
    if err then
      vim.notify('Hearth: ' .. (err.message or 'the server gave no answer'), vim.log.levels.WARN)
    elseif type(result) == 'table' and type(result.text) == 'string' then
      show(result.text)
    end
  end, 0)
end

--- What is known here, and what the server says of itself when it runs.
function M.status()
  local status = client.status
  local lines = { states[status.state] }
  if not config.current.enabled then
    lines[#lines + 1] = 'Suggestions are off (:Hearth toggle).'
  elseif status.state == 'running' and not client.for_buffer(vim.api.nvim_get_current_buf()) then
    lines[#lines + 1] = 'It is not for this buffer.'
  elseif status.busy then
    lines[#lines + 1] = 'It is busy.'
  end
  if status.message ~= '' then
    lines[#lines + 1] = status.message
  end
  local words = 'Hearth: ' .. table.concat(lines, ' ')
  local target = client.get()
  if not target or not target.initialized then
    vim.notify(words, vim.log.levels.INFO)
    return
  end
  ask(target, 'hearth.status', {}, function(text)
    vim.notify(words .. '\n' .. text, vim.log.levels.INFO)
  end)
end

--- Show why the last suggestion was made, or why there was none, in a window of its own.
function M.explain()
  local buf = vim.api.nvim_get_current_buf()
  local target = client.for_buffer(buf)
  if not target then
    return M.status()
  end
  ask(target, 'hearth.explain', { vim.uri_from_bufnr(buf) }, function(text)
    vim.lsp.util.open_floating_preview(vim.split(text, '\n', { plain = true }), 'text', { border = 'rounded' })
  end)
end

function M.toggle()
  local on = require('hearth').toggle()
  vim.notify(on and 'Hearth: suggestions are on.' or 'Hearth: suggestions are off.', vim.log.levels.INFO)
end

function M.restart()
  client.restart()
  if client.status.state ~= 'missing' then
    vim.notify('Hearth: the server is starting afresh.', vim.log.levels.INFO)
  end
end

return M
