-- One suggestion: an item of the server, bound to the place in a buffer that it was made for. It always answers
-- from the buffer as it is NOW: how much of it the user has typed, what is left, what an accept must change.
local text = require('hearth.text')

local M = {}

---@class hearth.Suggestion
---@field item table the server's item, as it came
---@field client_id integer
---@field buf integer
---@field row integer 0-based row of the range's start
---@field head string the line before the range's start
---@field replaced string the text after the cursor that the item replaces
---@field tail string the rest of the cursor's line, kept
---@field text string the whole text, LF

--- Where a request was made; kept until its answer, because the answer's columns count in this text.
---@class hearth.Place
---@field buf integer
---@field row integer 0-based
---@field column integer byte offset of the cursor
---@field line string

---@return hearth.Place
function M.place()
  local cursor = vim.api.nvim_win_get_cursor(0)
  return {
    buf = vim.api.nvim_get_current_buf(),
    row = cursor[1] - 1,
    column = cursor[2],
    line = vim.api.nvim_get_current_line(),
  }
end

--- Bind an item to the place it was asked for; nil when it does not fit there (another line, a range that ends
--- before the cursor, a snippet: all things that a server should not send for ghost text).
---@param item table
---@param place hearth.Place
---@param client_id integer
---@param encoding hearth.Encoding
---@return hearth.Suggestion?
function M.new(item, place, client_id, encoding)
  if type(item.insertText) ~= 'string' or item.insertText == '' then
    return nil
  end
  local first, last = place.column, place.column
  local range = item.range
  if type(range) == 'table' then
    if range.start.line ~= place.row or range['end'].line ~= place.row then
      return nil
    end
    first = text.to_bytes(place.line, range.start.character, encoding)
    last = text.to_bytes(place.line, range['end'].character, encoding)
  end
  if first > place.column or last < place.column then
    return nil
  end
  return {
    item = item,
    client_id = client_id,
    buf = place.buf,
    row = place.row,
    head = place.line:sub(1, first),
    replaced = place.line:sub(place.column + 1, last),
    tail = place.line:sub(last + 1),
    text = text.to_lf(item.insertText),
  }
end

--- How many bytes of the text stand in the buffer already, between the range's start and the cursor; nil when
--- the suggestion does not fit the buffer and the cursor any more.
---@param self hearth.Suggestion
---@param place hearth.Place
---@return integer?
function M.typed(self, place)
  if place.buf ~= self.buf or place.row < self.row then
    return nil
  end
  if place.line:sub(place.column + 1) ~= self.replaced .. self.tail then
    return nil
  end
  local _, breaks = self.text:gsub('\n', '')
  if place.row - self.row > breaks then
    return nil
  end
  local lines = vim.api.nvim_buf_get_lines(self.buf, self.row, place.row + 1, false)
  lines[#lines] = lines[#lines]:sub(1, place.column)
  local before = table.concat(lines, '\n')
  if not vim.startswith(before, self.head) then
    return nil
  end
  local typed = before:sub(#self.head + 1)
  if not vim.startswith(self.text, typed) then
    return nil
  end
  return #typed
end

--- The text still to come, or nil when the suggestion does not fit or nothing is left of it.
---@param self hearth.Suggestion
---@param place hearth.Place
---@return string?
function M.rest(self, place)
  local typed = M.typed(self, place)
  if not typed or typed == #self.text then
    return nil
  end
  return self.text:sub(typed + 1)
end

return M
