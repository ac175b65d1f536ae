-- :checkhealth hearth
local client = require('hearth.client')
local config = require('hearth.config')

local M = {}

function M.check()
  local health = vim.health
  health.start('Hearth')
  if vim.fn.has('nvim-0.10') == 1 then
    health.ok('Neovim is 0.10 or newer.')
  else
    health.error('Neovim is older than 0.10.', 'Use Neovim 0.10 or newer.')
  end

  local program = config.current.cmd[1]
  local path = vim.fn.exepath(program)
  if path ~= '' then
    health.ok(('The server is %s.'):format(path))
  else
    health.error(
      ('The server "%s" is not on PATH.'):format(program),
      'Install Hearth, or give its full path as `cmd` in setup().'
    )
  end

  local status = client.status
  if status.state == 'running' then
    health.ok('The server is running.')
  elseif status.state == 'off' then
    health.info('The server is not running; it starts with the first file that it is for.')
  else
    health.warn(('The server is in state "%s". %s'):format(status.state, status.message))
  end
  if not config.current.enabled then
    health.info('Suggestions are off (:Hearth toggle).')
  end
  if vim.fn.exists('#hearth') == 0 then
    health.warn('setup() was not called, or refused its options.', "Call require('hearth').setup() in your configuration.")
  end
end

return M
