#!/usr/bin/env bash
# Write the lock files anew from pyproject.toml and requirements/*.in. usage: lock.sh [PIP-COMPILE-OPTION...]
# (--upgrade takes the newest of everything; --upgrade-package NAME of one.) They name no index: pip uses its own.
set -euo pipefail

export CUSTOM_COMPILE_COMMAND="make lock"
compile() { # compile OUTPUT INPUT...
  local output=$1
  shift
  .venv/bin/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe \
    --no-emit-index-url --no-emit-trusted-host --no-emit-find-links "${options[@]}" "$@" -o "$output"
}
options=("$@")
compile requirements/build.lock requirements/build.in
compile requirements/node.lock requirements/node.in
compile requirements/aider.lock requirements/aider.in
compile requirements/runtime.lock pyproject.toml
# Made after runtime.lock and held to it, so that what is tested is what runs.
compile requirements/dev.lock -c requirements/runtime.lock pyproject.toml requirements/dev.in
