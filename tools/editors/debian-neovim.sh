#!/usr/bin/env bash
# Unpack the Neovim of another Debian release, with the libraries it needs, into FOLDER; nothing is installed. It comes
# from the same mirror as the machine's own packages, its signatures checked. usage: debian-neovim.sh RELEASE FOLDER
set -euo pipefail

release=$1
folder=$(cd "$2" && pwd)
state=$folder/apt
mkdir -p "$state"/{lists/partial,archives/partial,etc} "$folder"/{debs,root}
: >"$state/status" # as if nothing were installed, so that every library is fetched

# Asked in a way that needs no package lists: a fresh machine has none.
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get -o "Dir::State::Lists=$state/lists" -o Debug::NoLocking=1 --print-uris update |
  sed -n "s#^'\(.*\)/dists/$codename/InRelease' .*#\1#p" | sed -n 1p)
[ -n "$mirror" ] || {
  echo "apt-get names no package mirror for $codename." >&2
  exit 1
}
cat >"$state/etc/$release.sources" <<END
Types: deb
URIs: $mirror
Suites: $release
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
apt=(apt-get -qq
  -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$state/etc"
  -o "Dir::State::Lists=$state/lists" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state"
  -o Debug::NoLocking=1 -o APT::Sandbox::User=)
"${apt[@]}" update
packages=$("${apt[@]}" --no-install-recommends -y -s install neovim | awk '/^Inst/ { print $2 }')
cd "$folder/debs"
"${apt[@]}" download $packages
for package in *.deb; do dpkg -x "$package" "$folder/root"; done
rm -rf "$state" "$folder/debs"

# Run by its own loader, since the machine's C library may be older.
cat >"$folder/nvim" <<'END'
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")/root/usr
libraries=$(echo "$root"/lib/*-linux-gnu)
export VIMRUNTIME="$root/share/nvim/runtime" LUA_PATH="$root/share/lua/5.1/?.lua;;" LUA_CPATH="$libraries/lua/5.1/?.so;;"
exec "$(echo "$libraries"/ld-linux-*.so.*)" --library-path "$libraries" "$root/bin/nvim" "$@"
END
chmod +x "$folder/nvim"
"$folder/nvim" --version
