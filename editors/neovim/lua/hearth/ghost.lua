-- Drawing: one extmark per buffer, replaced in place so that nothing flickers. The buffer's text is never touched.
local text = require('hearth.text')

local M = {}

local namespace = vim.api.nvim_create_namespace('hearth_ghost')
local mark_id = 1

---@param buf integer
function M.erase(buf)
  if vim.api.nvim_buf_is_valid(buf) then
    vim.api.nvim_buf_del_extmark(buf, namespace, mark_id)
  end
end

---@param buf integer
---@return boolean
function M.drawn(buf)
  return vim.api.nvim_buf_is_valid(buf)
    and vim.api.nvim_buf_get_extmark_by_id(buf, namespace, mark_id, {})[1] ~= nil
end

--- Show `rest` at the cursor of the current window.
---@param suggestion hearth.Suggestion
---@param rest string what is still to come
---@param place hearth.Place
function M.draw(suggestion, rest, place)
  local tabstop = vim.bo[place.buf].tabstop
  local column = vim.fn.strdisplaywidth(place.line:sub(1, place.column))
  local lines = vim.split(rest, '\n', { plain = true })
  local replaced, tail = suggestion.replaced, suggestion.tail
  local single = #lines == 1

  -- A replaced text that the suggestion ends with again (mostly a closing bracket) stays where it is on screen.
  if single and replaced ~= '' and vim.endswith(rest, replaced) then
    lines[1] = rest:sub(1, #rest - #replaced)
    replaced = ''
  end
  for i, line in ipairs(lines) do
    lines[i] = text.expand_tabs(line, i == 1 and column or 0, tabstop)
  end
  local virtual_lines = {}
  for i = 2, #lines do
    virtual_lines[i - 1] = { { lines[i], 'HearthGhost' } }
  end

  ---@type vim.api.keyset.set_extmark
  local mark = { id = mark_id, hl_mode = 'combine', virt_text = { { lines[1], 'HearthGhost' } } }
  if replaced == '' and (single or tail == '') then
    mark.virt_text_pos = 'inline'
  else
    -- The text right of the cursor moves or goes: cover it, and show what is kept of it where it will be.
    local kept = text.expand_tabs(tail, vim.fn.strdisplaywidth(lines[#lines]), tabstop)
    mark.virt_text_pos = 'overlay'
    table.insert(single and mark.virt_text or virtual_lines[#virtual_lines], { kept, 'Normal' })
    local covered = vim.fn.strdisplaywidth(suggestion.replaced .. tail, column)
    local drawn = vim.fn.strdisplaywidth(single and lines[1] .. kept or lines[1], column)
    table.insert(mark.virt_text, { (' '):rep(covered - drawn), 'Normal' })
  end
  if #virtual_lines > 0 then
    mark.virt_lines = virtual_lines
  end
  vim.api.nvim_buf_set_extmark(place.buf, namespace, place.row, place.column, mark)
end

return M
