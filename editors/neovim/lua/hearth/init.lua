-- What a user's configuration calls. Everything else is in the modules beside this one.
local client = require('hearth.client')
local completion = require('hearth.completion')
local config = require('hearth.config')
local focus = require('hearth.focus')

local M = {}

local function autocmds()
  local group = vim.api.nvim_create_augroup('hearth', { clear = true })
  local function on(events, callback)
    vim.api.nvim_create_autocmd(events, { group = group, callback = callback })
  end
  on('FileType', function(event)
    client.attach(event.buf)
  end)
  on({ 'InsertEnter', 'TextChangedI', 'CursorMovedI' }, completion.changed)
  on({ 'TextChangedP', 'CompleteChanged' }, completion.menu_changed)
  on('CompleteDone', vim.schedule_wrap(completion.menu_changed))
  on({ 'InsertLeave', 'BufLeave' }, function(event)
    completion.clear(event.buf)
  end)
  on('BufUnload', function(event)
    completion.forget(event.buf)
  end)
  on({ 'BufEnter', 'FocusGained', 'LspAttach' }, function(event)
    if event.buf == vim.api.nvim_get_current_buf() then
      focus.gained()
    end
  end)
  on('LspAttach', function(event)
    local attached = vim.lsp.get_client_by_id(event.data.client_id)
    if attached and attached.name == 'hearth' and event.buf == vim.api.nvim_get_current_buf() then
      completion.attached()
    end
  end)
  on('CursorMoved', focus.moved)
  on('FocusLost', focus.lost)
end

--- Start Hearth. A wrong option is told in words, and Hearth stays off.
---@param options? hearth.Options
---@return boolean started
function M.setup(options)
  local faults = config.apply(options or {})
  if #faults > 0 then
    vim.notify('Hearth stays off. In setup(): ' .. table.concat(faults, ' '), vim.log.levels.ERROR)
    return false
  end
  autocmds()
  client.attach_all()
  return true
end

--- Accept the whole suggestion.
---@return boolean accepted false when none is visible: an expression map can then give a real <Tab>
function M.accept()
  return completion.accept('all')
end

--- Accept the next word of the suggestion.
---@return boolean accepted
function M.accept_word()
  return completion.accept('word')
end

--- Accept the suggestion up to the end of the line.
---@return boolean accepted
function M.accept_line()
  return completion.accept('line')
end

--- Hide the suggestion until the text changes.
---@return boolean dismissed false when none was visible
function M.dismiss()
  return completion.dismiss()
end

--- Ask now, whatever the server thinks of the place; it may offer several choices.
function M.complete()
  completion.complete()
end

--- Show the next choice.
---@return boolean changed
function M.next()
  return completion.cycle(1)
end

--- Show the previous choice.
---@return boolean changed
function M.previous()
  return completion.cycle(-1)
end

--- Whether a suggestion is on screen.
---@return boolean
function M.visible()
  return completion.visible()
end

--- For a status line; `User HearthStatus` tells of changes.
---@return hearth.Status
function M.status()
  return client.status
end

--- Switch suggestions on or off; off means that the server does no work either.
---@return boolean enabled
function M.toggle()
  config.current.enabled = not config.current.enabled
  completion.clear_all()
  client.push_settings()
  return config.current.enabled
end

return M
