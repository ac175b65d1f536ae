# Shared by the scripts beside it; sourced, not run, from the repository's root.
# What is downloaded for development alone lies outside the tree, so that every checkout shares it.

cache=${HEARTH_DEV_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hearth-dev}

# die WHAT WHAT-TO-DO...: say it in words on standard error and stop.
die() {
  printf '%s\n' "$@" >&2
  exit 1
}

# is_debian: true where apt-get is the way to install a missing thing.
is_debian() { command -v apt-get >/dev/null 2>&1; }
