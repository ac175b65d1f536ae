-- Asking, showing and accepting. All state is per buffer; everything is computed against the buffer as it is now.
local client = require('hearth.client')
local config = require('hearth.config')
local ghost = require('hearth.ghost')
local suggestion = require('hearth.suggestion')
local text = require('hearth.text')

local M = {}

local invoked, automatic = 1, 2
-- A request that was cancelled or overtaken is no fault (LSP: RequestCancelled, ContentModified, ServerCancelled).
local harmless = { [-32800] = true, [-32801] = true, [-32802] = true }

---@class hearth.BufferState
---@field choices hearth.Suggestion[] what the server offered, best first
---@field index integer which of them is shown
---@field running? {client: vim.lsp.Client, id: integer} the request on its way
---@field shown? string the line as the last announced suggestion would make it
---@field seen? string text and cursor of the last change that was looked at

---@type table<integer, hearth.BufferState>
local states = {}
local timer = assert(vim.uv.new_timer())

---@param buf integer
---@return hearth.BufferState
local function state_of(buf)
  states[buf] = states[buf] or { choices = {}, index = 1 }
  return states[buf]
end

local function inserting()
  return vim.api.nvim_get_mode().mode:sub(1, 1) == 'i'
end

local function menu_visible()
  return vim.fn.pumvisible() == 1
end

---@param state hearth.BufferState
local function cancel(state)
  local running = state.running
  state.running = nil
  if running then
    client.call(running.client, 'cancel_request', running.id)
  end
end

---@param buf integer
local function drop(buf)
  local state = state_of(buf)
  state.choices, state.index, state.shown = {}, 1, nil
  ghost.erase(buf)
end

--- Bring the screen in line with the buffer: shrink, keep, hide or drop what is shown.
---@param place hearth.Place
local function refresh(place)
  local state = state_of(place.buf)
  local current = state.choices[state.index]
  local rest = current and suggestion.rest(current, place)
  if not rest then
    drop(place.buf)
  elseif menu_visible() or not inserting() then
    ghost.erase(place.buf)
  else
    ghost.draw(current, rest, place)
    local line = current.head .. current.text .. current.tail
    if state.shown ~= line then
      state.shown = line
      client.notify('textDocument/didShowCompletion', { item = current.item })
    end
  end
end

---@param place hearth.Place where it was asked
---@param from vim.lsp.Client
local function answered(place, from, err, result)
  if err then
    if not harmless[err.code] then
      client.status.message = ('The last request failed: %s'):format(err.message or 'no reason given')
    end
    return
  end
  -- null: the server has nothing to say about this request; what is shown stays.
  if type(result) ~= 'table' or place.buf ~= vim.api.nvim_get_current_buf() or not inserting() then
    return
  end
  local now = suggestion.place()
  local choices = {}
  for _, item in ipairs(result.items or result) do
    local choice = suggestion.new(item, place, from.id, from.offset_encoding)
    if choice and suggestion.rest(choice, now) then
      choices[#choices + 1] = choice
    end
  end
  local state = state_of(place.buf)
  state.choices, state.index = choices, 1
  refresh(now)
end

---@param trigger integer
local function ask(trigger)
  local place = suggestion.place()
  local target = client.for_buffer(place.buf)
  if not target or not config.current.enabled or not inserting() or menu_visible() then
    return
  end
  local state = state_of(place.buf)
  -- A request on its way is not cancelled: the newer one supersedes it in the server, which may go on writing the
  -- same suggestion when the user only types along.
  local params = client.position(place.buf, target)
  params.context = { triggerKind = trigger }
  params.formattingOptions = { tabSize = vim.fn.shiftwidth(), insertSpaces = vim.bo[place.buf].expandtab }
  local running = { client = target }
  state.running = running
  local ok, id = client.call(target, 'request', 'textDocument/inlineCompletion', params, function(err, result)
    if state.running == running then
      state.running = nil
      answered(place, target, err, result)
    end
  end, place.buf)
  if ok then
    running.id = id
  else
    state.running = nil
  end
end

--- The text or the cursor moved in insert mode: follow at once, and ask when the keys rest.
function M.changed()
  local place = suggestion.place()
  local state = state_of(place.buf)
  local seen = table.concat({ vim.api.nvim_buf_get_changedtick(place.buf), place.row, place.column }, ':')
  if state.seen == seen then
    return -- TextChangedI and CursorMovedI both tell of one key
  end
  state.seen = seen
  refresh(place)
  timer:stop()
  timer:start(config.current.debounce_ms, 0, vim.schedule_wrap(function()
    ask(automatic)
  end))
end

--- The server came to the current buffer: what was typed before it did has not been asked about.
function M.attached()
  if inserting() then
    state_of(vim.api.nvim_get_current_buf()).seen = nil
    M.changed()
  end
end

--- The popup menu opened, moved or closed.
function M.menu_changed()
  refresh(suggestion.place())
end

--- Hide, and forget the request on its way.
---@param buf integer
function M.clear(buf)
  timer:stop()
  local state = state_of(buf)
  cancel(state)
  state.seen = nil
  drop(buf)
end

---@param buf integer
function M.forget(buf)
  states[buf] = nil
end

function M.clear_all()
  for buf in pairs(states) do
    M.clear(buf)
  end
end

--- Whether a suggestion can be seen, and so accepted, in the current buffer.
---@return boolean
function M.visible()
  local place = suggestion.place()
  local state = state_of(place.buf)
  local current = state.choices[state.index]
  return current ~= nil
    and inserting()
    and not menu_visible()
    and ghost.drawn(place.buf)
    and suggestion.rest(current, place) ~= nil
end

function M.complete()
  ask(invoked)
end

--- Show another of the offered choices.
---@param step integer
---@return boolean
function M.cycle(step)
  if not M.visible() then
    return false
  end
  local state = state_of(vim.api.nvim_get_current_buf())
  state.index = (state.index - 1 + step) % #state.choices + 1
  refresh(suggestion.place())
  return true
end

---@return boolean
function M.dismiss()
  if not M.visible() then
    return false
  end
  local buf = vim.api.nvim_get_current_buf()
  timer:stop()
  cancel(state_of(buf))
  drop(buf)
  return true
end

---@param current hearth.Suggestion
local function run_command(current)
  local command = current.item.command
  local target = client.for_buffer(current.buf)
  if type(command) == 'table' and target and target.id == current.client_id then
    client.call(target, 'request', 'workspace/executeCommand', {
      command = command.command,
      arguments = command.arguments,
    }, function() end, current.buf)
  end
end

---@type table<string, fun(rest: string): string>
local amounts = {
  all = function(rest)
    return rest
  end,
  word = text.next_word,
  line = text.next_line,
}

--- Put the accepted part into the buffer; the cursor goes to its end, and one undo takes it back.
---@param amount "all"|"word"|"line"
function M.apply(amount)
  if not M.visible() then
    return
  end
  local place = suggestion.place()
  local state = state_of(place.buf)
  local current = state.choices[state.index]
  local rest = assert(suggestion.rest(current, place))
  local part = amounts[amount](rest)
  local all = #part == #rest
  local lines = vim.split(part, '\n', { plain = true })

  vim.cmd('let &g:undolevels = &g:undolevels') -- a break in the undo sequence: see :help undo-break
  vim.api.nvim_buf_set_text(
    place.buf,
    place.row,
    place.column,
    place.row,
    place.column + (all and #current.replaced or 0),
    lines
  )
  local column = #lines == 1 and place.column + #part or #lines[#lines]
  vim.api.nvim_win_set_cursor(0, { place.row + #lines, column })

  if all then
    drop(place.buf)
    run_command(current)
    return
  end
  local now = suggestion.place()
  refresh(now)
  local accepted = current.text:sub(1, suggestion.typed(current, now))
  client.notify('textDocument/didPartiallyAcceptCompletion', {
    item = current.item,
    acceptedLength = text.to_units(accepted, #accepted, 'utf-16'),
  })
end

--- Accept if something is visible. The change is made by a <Cmd> put before all other waiting keys: so it works
--- from an expression map, where the buffer is locked, and keys typed after it still come after it.
---@param amount "all"|"word"|"line"
---@return boolean
function M.accept(amount)
  if not M.visible() then
    return false
  end
  local keys = ("<Cmd>lua require('hearth.completion').apply('%s')<CR>"):format(amount)
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes(keys, true, false, true), 'in', false)
  return true
end

return M
