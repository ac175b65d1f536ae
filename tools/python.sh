#!/usr/bin/env bash
# Print the Python that the environment is made with: $PYTHON, or the first of 3.11 or newer on PATH.
set -euo pipefail
. "$(dirname "$0")/common.sh"

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

if [ -n "${PYTHON:-}" ]; then
  new_enough "$PYTHON" || die "PYTHON=$PYTHON is not a Python of 3.11 or newer." "Name another one: make PYTHON=/path/to/python3.11"
  echo "$PYTHON"
  exit
fi
for python in python3 python3.11 python3.12 python3.13; do
  if new_enough "$python"; then
    command -v "$python"
    exit
  fi
done
die "Hearth needs Python 3.11 or newer, and there is none on PATH." \
  "Install one, or name it: make PYTHON=/path/to/python3.11"
