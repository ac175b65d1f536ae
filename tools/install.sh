#!/usr/bin/env bash
# Install the packages of a lock file into .venv, their hashes checked. usage: install.sh LOCK-FILE
set -euo pipefail
. "$(dirname "$0")/common.sh"

.venv/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r "$1" && exit
die "" "The packages of $1 could not be installed; pip's own words are above." \
  "\"from versions: none\" and connection errors mean that the package index cannot be reached: check the network" \
  "and pip's settings (pip config list). \"No space left\" means that this disk or the temporary folder (\$TMPDIR) is full." \
  "Then run make again; it goes on from here."
