-- The server's life: one process for this Neovim, whatever the number of projects, since the model sits behind it.
-- Started with the first buffer that wants it, started again after a crash (a limited number of times).
local config = require('hearth.config')
local text = require('hearth.text')

local M = {}

--- Waits before the restarts after crashes in a row; after the last one the server stays off.
M.restart_delays_ms = { 500, 1000, 2000, 4000, 8000 }
--- A server that ran this long had no part in a row of crashes.
M.steady_ms = 60000

---@class hearth.Status
---@field state "off"|"missing"|"starting"|"running"|"restarting"|"failed" the server's process
---@field busy boolean the server's own notice: at work now
---@field kind string the server's own notice: "Normal", "Warning", "Error" or "Inactive"
---@field message string for a person
M.status = { state = 'off', busy = false, kind = 'Normal', message = '' }

local crashes = 0
local started_at = 0
--- How long a server may take to end when told to.
local stop_ms = 2000
---@type table<integer, boolean> clients that were told to stop, to be followed by a fresh one
local stopping = {}

--- Call a client's method on any Neovim: methods take the client itself since 0.11.
---@param client vim.lsp.Client
---@param method string
function M.call(client, method, ...)
  if vim.fn.has('nvim-0.11') == 1 then
    return client[method](client, ...)
  end
  return client[method](...)
end

---@param fields table
local function set_status(fields)
  M.status = vim.tbl_extend('force', M.status, fields)
  vim.api.nvim_exec_autocmds('User', { pattern = 'HearthStatus', modeline = false })
end

---@return vim.lsp.Client?
function M.get()
  for _, client in ipairs(vim.lsp.get_clients({ name = 'hearth' })) do
    if not stopping[client.id] and not M.call(client, 'is_stopped') then
      return client
    end
  end
end

--- The running client if the buffer is attached to it.
---@param buf integer
---@return vim.lsp.Client?
function M.for_buffer(buf)
  local client = M.get()
  if client and client.initialized and vim.lsp.buf_is_attached(buf, client.id) then
    return client
  end
end

---@param method string
---@param params table
function M.notify(method, params)
  local client = M.get()
  if client and client.initialized then
    M.call(client, 'notify', method, params)
  end
end

---@param buf integer the current buffer
---@param target vim.lsp.Client
---@return table params of LSP's position notices and requests for the current window's cursor
function M.position(buf, target)
  local cursor = vim.api.nvim_win_get_cursor(0)
  return {
    textDocument = { uri = vim.uri_from_bufnr(buf), version = vim.lsp.util.buf_versions[buf] },
    position = {
      line = cursor[1] - 1,
      character = text.to_units(vim.api.nvim_get_current_line(), cursor[2], target.offset_encoding),
    },
  }
end

--- What the server is told: the user's settings, and whether suggestions are on now.
local function server_settings()
  local settings = vim.tbl_extend('force', config.current.settings, { enabled = config.current.enabled })
  if settings.languages and next(settings.languages) == nil then
    settings.languages = vim.empty_dict() -- an empty table would be sent as a list
  end
  return settings
end

--- Tell the server that a setting changed.
function M.push_settings()
  local client = M.get()
  if client then
    client.settings = { hearth = server_settings() }
    M.notify('workspace/didChangeConfiguration', { settings = client.settings })
  end
end

--- Whether a buffer is one to complete in: a named, ordinary file of a wanted filetype.
---@param buf integer
function M.wants(buf)
  local filetype = vim.bo[buf].filetype
  return vim.api.nvim_buf_is_loaded(buf)
    and vim.bo[buf].buftype == ''
    and vim.api.nvim_buf_get_name(buf) ~= ''
    and filetype ~= ''
    and (config.current.filetypes == nil or vim.list_contains(config.current.filetypes, filetype))
end

local function on_exit(code, signal, client_id)
  if stopping[client_id] then
    stopping[client_id] = nil
    M.attach_all()
    return
  end
  if vim.uv.now() - started_at > M.steady_ms then
    crashes = 0
  end
  crashes = crashes + 1
  local how = signal ~= 0 and ('signal %d'):format(signal) or ('exit code %d'):format(code)
  local delay = M.restart_delays_ms[crashes]
  if not delay then
    local message = ("Hearth's server stopped %d times in a row (%s) and stays off. :LspLog may say why; "):format(crashes, how)
      .. ':Hearth restart starts it again.'
    set_status({ state = 'failed', busy = false, kind = 'Error', message = message })
    vim.notify(message, vim.log.levels.ERROR)
    return
  end
  set_status({ state = 'restarting', busy = false, kind = 'Warning', message = 'The server stopped; starting it again.' })
  if crashes == 1 then
    vim.notify(("Hearth's server stopped (%s); starting it again."):format(how), vim.log.levels.WARN)
  end
  vim.defer_fn(function()
    if M.status.state == 'restarting' then
      M.attach_all()
    end
  end, delay)
end

---@param root string
local function workspace_folder(root)
  return { uri = vim.uri_from_fname(root), name = root }
end

--- A running client learns of another project instead of a second server being started for it.
---@param client vim.lsp.Client
---@param root string
local function add_root(client, root)
  client.workspace_folders = client.workspace_folders or {}
  for _, folder in ipairs(client.workspace_folders) do
    if folder.name == root then
      return
    end
  end
  local folder = workspace_folder(root)
  table.insert(client.workspace_folders, folder)
  M.notify('workspace/didChangeWorkspaceFolders', { event = { added = { folder }, removed = {} } })
end

---@param root string
---@return vim.lsp.ClientConfig
local function client_config(root)
  local capabilities = vim.lsp.protocol.make_client_capabilities()
  capabilities.textDocument.inlineCompletion = { dynamicRegistration = false }
  return {
    name = 'hearth',
    cmd = config.current.cmd,
    cmd_env = config.current.cmd_env,
    root_dir = root,
    workspace_folders = { workspace_folder(root) },
    capabilities = capabilities,
    init_options = server_settings(),
    settings = { hearth = server_settings() },
    -- Every change at once: notices must never overtake the text that they speak of.
    flags = { debounce_text_changes = 0 },
    handlers = {
      didChangeStatus = function(_, notice)
        if type(notice) == 'table' then
          set_status({
            busy = notice.busy == true,
            kind = notice.kind or 'Normal',
            message = notice.message or '',
          })
        end
      end,
    },
    on_init = function(client)
      -- Neovim 0.12 has ghost text of its own, which accepts at a stale place; with this it never starts for us.
      client.server_capabilities.inlineCompletionProvider = nil
      set_status({ state = 'running', busy = false, kind = 'Normal', message = '' })
    end,
    on_exit = vim.schedule_wrap(on_exit),
  }
end

--- Attach the server to a buffer, starting it if need be.
---@param buf integer
function M.attach(buf)
  if not M.wants(buf) or M.status.state == 'failed' or next(stopping) then
    return
  end
  local root = vim.fs.root(buf, config.current.root_markers) or vim.fs.dirname(vim.api.nvim_buf_get_name(buf))
  local client = M.get()
  if client then
    if not vim.lsp.buf_is_attached(buf, client.id) then
      add_root(client, root)
      vim.lsp.buf_attach_client(buf, client.id)
    end
    return
  end
  local program = config.current.cmd[1]
  if vim.fn.executable(program) == 0 then
    if M.status.state ~= 'missing' then
      local message = ('Hearth cannot find its server "%s". Install Hearth, or give its full path: '):format(program)
        .. 'require("hearth").setup({ cmd = { "/path/to/hearth", "lsp" } }). Then :Hearth restart.'
      set_status({ state = 'missing', kind = 'Error', message = message })
      vim.notify(message, vim.log.levels.WARN)
    end
    return
  end
  set_status({ state = 'starting', message = '' })
  started_at = vim.uv.now()
  vim.lsp.start(client_config(root), {
    bufnr = buf,
    reuse_client = function()
      return false
    end,
  })
end

function M.attach_all()
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    M.attach(buf)
  end
end

--- Start the server afresh, with the crash count at nought. One that runs is ended first: two would hold the
--- model in memory twice.
function M.restart()
  crashes = 0
  set_status({ state = 'off', busy = false, kind = 'Normal', message = '' })
  local client = M.get()
  if not client then
    M.attach_all()
    return
  end
  stopping[client.id] = true
  M.call(client, 'stop')
  vim.defer_fn(function()
    if stopping[client.id] then
      M.call(client, 'stop', true)
    end
  end, stop_ms)
end

return M
