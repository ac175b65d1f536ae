-- What is there before setup() is called: the <Plug> maps, the :Hearth command and the highlight group.
-- No key is taken: the user maps what they like to the <Plug> names (see :help hearth-keys).
if vim.g.loaded_hearth then
  return
end
vim.g.loaded_hearth = true

if vim.fn.has('nvim-0.10') == 0 then
  vim.notify('Hearth needs Neovim 0.10 or newer; it stays off.', vim.log.levels.WARN)
  return
end

vim.api.nvim_set_hl(0, 'HearthGhost', { link = 'Comment', default = true })

local function plug(name, action)
  vim.keymap.set('i', '<Plug>(hearth-' .. name .. ')', function()
    require('hearth')[action]()
  end, { desc = 'Hearth: ' .. name:gsub('-', ' ') })
end

plug('accept', 'accept')
plug('accept-word', 'accept_word')
plug('accept-line', 'accept_line')
plug('dismiss', 'dismiss')
plug('complete', 'complete')
plug('next', 'next')
plug('previous', 'previous')

local subcommands = { 'status', 'explain', 'toggle', 'restart' }

vim.api.nvim_create_user_command('Hearth', function(args)
  local name = args.args == '' and 'status' or args.args
  if vim.list_contains(subcommands, name) then
    require('hearth.command')[name]()
  else
    vim.notify(
      (':Hearth has no "%s". It has: %s.'):format(name, table.concat(subcommands, ', ')),
      vim.log.levels.ERROR
    )
  end
end, {
  nargs = '?',
  desc = 'Hearth: status, explain, toggle or restart',
  complete = function(lead)
    return vim.tbl_filter(function(name)
      return vim.startswith(name, lead)
    end, subcommands)
  end,
})
