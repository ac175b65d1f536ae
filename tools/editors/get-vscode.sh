#!/usr/bin/env bash
# Fetch code-server (a real VS Code, served to a browser), the Node it needs, and Chromium if the machine has none.
# Prints one line for each: NAME PATH. Skips what is already there.
set -euo pipefail
. "$(dirname "$0")/common.sh"

need npm "to fetch code-server"

node_24() {
  echo '{"private":true}' >"$1/package.json"
  npm install --prefix "$1" --no-audit --no-fund node@24.21.0 && "$1/node_modules/.bin/node" --version
}
node=$cache/node-24.21.0/node_modules/node/bin/node

# No install scripts: the native modules that they would compile (log files, a watchdog, Kerberos) are not used here.
code_server() {
  export PATH=$cache/node-24.21.0/node_modules/.bin:$PATH
  echo '{"private":true}' >"$1/package.json"
  npm install --prefix "$1" --ignore-scripts --no-audit --no-fund code-server@4.139.1 &&
    cd "$1/node_modules/code-server/lib/vscode" &&
    npm install --omit=dev --ignore-scripts --no-audit --no-fund
}

find_chromium() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
install_chromium() {
  local sudo=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null ||
      die "Chromium is not installed and this user cannot install it. Ask for: apt-get install chromium"
    sudo="sudo -n"
  fi
  command -v apt-get >/dev/null 2>&1 ||
    die "Chromium is not installed and there is no apt-get here. Install Chromium by this system's own means."
  $sudo apt-get update -qq >&2 &&
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >&2 ||
    die "apt-get could not install chromium. Check that this machine reaches its package mirror."
}

install_once node-24.21.0 node_24
install_once code-server-4.139.1 code_server
find_chromium >/dev/null || install_chromium
echo "node $node"
echo "code-server $cache/code-server-4.139.1"
echo "chromium $(find_chromium)"
