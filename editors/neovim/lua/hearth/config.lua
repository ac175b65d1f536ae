-- The options of setup(): what they are, their defaults, and their check in words that a person can act on.
local M = {}

--- What the server itself knows; passed on as it is, and checked there.
---@class hearth.ServerSettings
---@field enabled? boolean give suggestions at all
---@field languages? table<string, boolean> switch single languages on or off, by LSP language id
---@field exclude? string[] path patterns of files that get no suggestions
---@field mode? "auto"|"single"|"multi" how long a suggestion may be
---@field model? string name in the catalogue, or of a remote; "" is the default of the service
---@field maxTokens? integer most tokens of one suggestion
---@field threads? integer CPU threads; 0 lets the server choose

---@class hearth.Options
---@field cmd? string[] how the server is started
---@field cmd_env? table<string, string> extra environment of the server
---@field filetypes? string[] only these; nil is every named file that has a filetype
---@field root_markers? string[] files or folders that mark a project's root
---@field enabled? boolean start with suggestions on
---@field debounce_ms? integer quiet time after a key before the server is asked
---@field settings? hearth.ServerSettings

---@class hearth.Config : hearth.Options
---@field cmd string[]
---@field cmd_env table<string, string>
---@field root_markers string[]
---@field enabled boolean
---@field debounce_ms integer
---@field settings hearth.ServerSettings
M.defaults = {
  cmd = { 'hearth', 'lsp' },
  cmd_env = {},
  filetypes = nil,
  root_markers = { '.git', '.hg', 'pyproject.toml', 'package.json', 'Cargo.toml', 'go.mod', 'CMakeLists.txt' },
  enabled = true,
  debounce_ms = 20,
  settings = {},
}

---@type hearth.Config
M.current = vim.deepcopy(M.defaults)

local function is_string_list(value)
  if type(value) ~= 'table' or not vim.islist(value) then
    return false
  end
  for _, item in ipairs(value) do
    if type(item) ~= 'string' then
      return false
    end
  end
  return true
end

local function is_string_map(value)
  if type(value) ~= 'table' then
    return false
  end
  for key, item in pairs(value) do
    if type(key) ~= 'string' or type(item) ~= 'string' then
      return false
    end
  end
  return true
end

---@type table<string, {check: fun(value: any): boolean, want: string}>
local rules = {
  cmd = {
    check = function(value)
      return is_string_list(value) and #value > 0
    end,
    want = 'a list of strings such as { "hearth", "lsp" }',
  },
  cmd_env = { check = is_string_map, want = 'a table of strings such as { NAME = "value" }' },
  filetypes = { check = is_string_list, want = 'a list of filetypes such as { "python", "rust" }' },
  root_markers = { check = is_string_list, want = 'a list of file names such as { ".git" }' },
  enabled = {
    check = function(value)
      return type(value) == 'boolean'
    end,
    want = 'true or false',
  },
  debounce_ms = {
    check = function(value)
      return type(value) == 'number' and value >= 0 and value % 1 == 0
    end,
    want = 'a whole number of milliseconds, 0 or more',
  },
  settings = {
    check = function(value)
      return type(value) == 'table' and (next(value) == nil or not vim.islist(value))
    end,
    want = 'a table such as { mode = "single" }',
  },
}

--- Every fault of the given options, one sentence each; empty when all is well.
---@param options any
---@return string[]
function M.faults(options)
  if type(options) ~= 'table' then
    return { ('the options must be a table, not a %s.'):format(type(options)) }
  end
  local faults = {}
  for name, value in pairs(options) do
    local rule = rules[name]
    if not rule then
      local known = vim.tbl_keys(rules)
      table.sort(known)
      faults[#faults + 1] = ('there is no option "%s"; the options are %s.'):format(
        tostring(name),
        table.concat(known, ', ')
      )
    elseif not rule.check(value) then
      faults[#faults + 1] = ('"%s" must be %s, not %s.'):format(name, rule.want, vim.inspect(value))
    end
  end
  table.sort(faults)
  return faults
end

--- Take over the options; nothing is taken when one is wrong.
---@param options hearth.Options
---@return string[] faults
function M.apply(options)
  local faults = M.faults(options)
  if #faults == 0 then
    M.current = vim.tbl_extend('force', vim.deepcopy(M.defaults), options)
  end
  return faults
end

return M
