#!/usr/bin/env bash
# Build the native module into engine/ of this tree, incrementally; a build with nothing to do takes a moment.
# Uses the locked CMake, Ninja and nanobind of .venv. usage: build.sh [CMAKE-DEFINITION...]
set -euo pipefail
. "$(dirname "$0")/common.sh"

bin=$PWD/.venv/bin
tag=$("$bin/python" -c 'import sys; print(sys.implementation.cache_tag)')
dir=build/$tag

# A folder configured for another place (the tree was moved or copied) cannot be used again.
if [ -f "$dir/CMakeCache.txt" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$dir/CMakeCache.txt"; then
  rm -rf "$dir"
fi
if [ ! -f "$dir/build.ninja" ] || [ $# -gt 0 ]; then
  "$bin/cmake" -S . -B "$dir" -G Ninja --log-level=WARNING \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_MAKE_PROGRAM="$bin/ninja" \
    -DPython_EXECUTABLE="$bin/python" "$@"
fi
"$bin/cmake" --build "$dir"
