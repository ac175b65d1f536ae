#!/usr/bin/env bash
# Say in words what this machine lacks for a build, all of it at once, before anything is downloaded.
# usage: preflight.sh PYTHON
set -euo pipefail
. "$(dirname "$0")/common.sh"

python=$1
missing=() packages=()
lacks() { # lacks WHAT DEBIAN-PACKAGE
  missing+=("$1")
  packages+=("$2")
}

"$python" -c 'import venv, ensurepip' 2>/dev/null ||
  lacks "the venv module of $python" python3-venv
header=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include") + "/Python.h")')
[ -f "$header" ] || lacks "the C headers of $python ($header)" python3-dev
echo 'int main() { return 0; }' | "${CXX:-c++}" -std=c++20 -fsyntax-only -x c++ - 2>/dev/null ||
  lacks "a C++20 compiler (${CXX:-c++})" g++

[ ${#missing[@]} = 0 ] && exit
printf 'This machine lacks what Hearth is built with:\n' >&2
printf '  - %s\n' "${missing[@]}" >&2
if is_debian; then
  die "Install it with: apt-get install ${packages[*]}"
else
  die "Install it by this system's own means, then run make again."
fi
