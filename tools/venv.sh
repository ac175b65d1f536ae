#!/usr/bin/env bash
# Make the environment in FOLDER, unless it is there: of $PYTHON if that is set, else of any Python that is new enough.
# One whose Python has gone, or is another than $PYTHON, is made anew. usage: venv.sh FOLDER
set -euo pipefail
. "$(dirname "$0")/common.sh"

folder=$1
which_python() { "$1" -c 'import sys; print(sys.base_prefix, sys.version)' 2>/dev/null; }

if [ -f "$folder/.created" ] && here=$(which_python "$folder/bin/python"); then
  [ -n "${PYTHON:-}" ] || exit 0
  [ "$here" != "$(which_python "$(tools/python.sh)")" ] || exit 0
fi
python=$(tools/python.sh)
tools/preflight.sh "$python"
rm -rf "$folder"
"$python" -m venv "$folder"
touch "$folder/.created"
