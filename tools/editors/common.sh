# Shared by the set-up scripts beside it; sourced, not run. Everything they fetch goes into one cache folder outside
# the source tree: $HEARTH_DEV_CACHE, or ${XDG_CACHE_HOME:-~/.cache}/hearth-dev.

cache=${HEARTH_DEV_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hearth-dev}
mkdir -p "$cache"

die() {
  printf '%s\n' "$@" >&2
  exit 1
}

need() { # need COMMAND WHY
  command -v "$1" >/dev/null 2>&1 || die "'$1' is not on PATH; it is needed $2. Install it and run this script again."
}

# Build a folder in a scratch place and move it into the cache only when complete, so that an interrupted
# run leaves nothing half done. install_once NAME FUNCTION; FUNCTION gets the scratch folder.
install_once() {
  local target=$cache/$1 scratch
  [ -d "$target" ] && return 0
  scratch=$(mktemp -d "$cache/.partial-XXXXXX")
  "$2" "$scratch" >"$scratch.log" 2>&1 || {
    tail -n 20 "$scratch.log" >&2
    rm -rf "$scratch"
    die "Could not install $1 (the whole log is $scratch.log)." \
      "Check that this machine reaches its package registries, then run this script again."
  }
  rm -f "$scratch.log"
  chmod 755 "$scratch"
  # Two runs at once are harmless: the second finds the folder there and drops its own copy.
  mv -T "$scratch" "$target" 2>/dev/null || rm -rf "$scratch"
}
