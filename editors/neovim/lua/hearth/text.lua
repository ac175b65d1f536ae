-- Text and columns: pure functions, no state. Columns inside the plugin are byte offsets, as in Neovim's API;
-- LSP columns count the units of the negotiated position encoding.
local M = {}

---@alias hearth.Encoding "utf-8"|"utf-16"|"utf-32"

--- Bytes of the UTF-8 character that starts with this byte; 1 for a byte that starts none.
local function width(byte)
  if byte >= 0xF0 and byte < 0xF8 then
    return 4
  elseif byte >= 0xE0 then
    return byte < 0xF0 and 3 or 1
  end
  return byte >= 0xC0 and 2 or 1
end

---@param encoding hearth.Encoding
---@param bytes integer
local function units_of(encoding, bytes)
  if encoding == 'utf-8' then
    return bytes
  end
  return (encoding == 'utf-16' and bytes == 4) and 2 or 1
end

--- Units of `text` before byte offset `column` (a column past the end means the end).
---@param text string
---@param column integer
---@param encoding hearth.Encoding
---@return integer
function M.to_units(text, column, encoding)
  if encoding == 'utf-8' then
    return math.min(column, #text)
  end
  local units, at = 0, 1
  while at <= column and at <= #text do
    local bytes = width(text:byte(at))
    units = units + units_of(encoding, bytes)
    at = at + bytes
  end
  return units
end

--- Byte offset of a unit column. Past the end means the end; inside a character means its start.
---@param text string
---@param units integer
---@param encoding hearth.Encoding
---@return integer
function M.to_bytes(text, units, encoding)
  local at, seen = 1, 0
  while at <= #text do
    local bytes = width(text:byte(at))
    seen = seen + units_of(encoding, bytes)
    if seen > units then
      break
    end
    at = at + bytes
  end
  return math.min(at - 1, #text)
end

--- Buffers hold lines without line ends, so text from a server has LF only before it is used.
---@param text string
---@return string
function M.to_lf(text)
  return (text:gsub('\r\n?', '\n'))
end

--- The next word of `text` with the blanks before it; all of `text` when only blanks are left.
---@param text string
---@return string
function M.next_word(text)
  local word = vim.fn.matchstr(text, [[^\_s*\%(\k\+\|\%(\k\@![^ \t\n]\)\+\)]])
  return word ~= '' and word or text
end

--- The rest of the line; at a line's end, the whole next line that is not empty.
---@param text string
---@return string
function M.next_line(text)
  return text:match('^\n*[^\n]*')
end

--- Tabs as the blanks they would show as, for text that starts at display column `column`.
---@param text string
---@param column integer
---@param tabstop integer
---@return string
function M.expand_tabs(text, column, tabstop)
  if not text:find('\t', 1, true) then
    return text
  end
  local out = ''
  for part, tab in text:gmatch('([^\t]*)(\t?)') do
    out = out .. part
    if tab ~= '' then
      local at = column + vim.fn.strdisplaywidth(out)
      out = out .. (' '):rep(tabstop - at % tabstop)
    end
  end
  return out
end

return M
